import { Content, Form, Stack, StackItem, Title } from '@patternfly/react-core';
import { useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { useNavigate } from 'react-router';
import { AddressSpaceKind, SchemaKind } from '@/api/kinds';
import { useAll } from '@/api/list';
import type { AddressSpace, AddressSpaceSchema } from '@/api/types';
import { create, useDryRun } from '@/api/write';
import { useNotify } from '@/app/notices';
import { useSession } from '@/app/session';
import { CheckedStep } from '@/ui/CheckedForm';
import { Choices } from '@/ui/Choices';
import { CodeTabs } from '@/ui/Code';
import { DraftFields, type FieldSpec } from '@/ui/DraftFields';
import { Facts } from '@/ui/Facts';
import { Failure, Loading } from '@/ui/States';
import { WizardPage } from '@/ui/WizardPage';
import { useDraft, type DraftPaths } from '@/ui/draft';
import { faultOf } from '@/ui/fields';
import { previewsOf, pruned } from '@/ui/preview';
import { EndpointFields, endpointDocument, type EndpointDraft } from './EndpointFields';
import { spacePath } from './paths';
import { limitTexts } from './planChoice';

interface Draft {
  namespace: string;
  name: string;
  type: string;
  plan: string;
  service: string;
  endpoints: EndpointDraft[];
}

const PATHS: DraftPaths<Draft> = {
  namespace: ['metadata.namespace'],
  name: ['metadata.name'],
  service: ['spec.authenticationService'],
};

type Schema = AddressSpaceSchema['spec'];

const TYPE_TEXTS: Record<string, string> = {
  standard: 'Every address type, direct ones too. Scales with the number of addresses.',
  brokered: 'Queues and topics of one broker, with transactions and ordering across addresses.',
};

function documentOf(draft: Draft): AddressSpace {
  return pruned({
    apiVersion: 'enmasse.io/v1beta1',
    kind: 'AddressSpace',
    metadata: { name: draft.name, namespace: draft.namespace },
    spec: {
      type: draft.type,
      plan: draft.plan,
      authenticationService: draft.service ? { name: draft.service } : undefined,
      endpoints: draft.endpoints.map(endpointDocument),
    },
  }) as AddressSpace;
}

function quotaText(limits: Record<string, number | undefined> | undefined): string {
  const given = Object.entries(limits ?? {}).filter(([, value]) => value !== undefined);
  return given.map(([name, value]) => `${name} ${String(value)}`).join(' · ');
}

interface PartProps {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  schemas: Map<string, Schema>;
}

const BASIC_FIELDS = ['metadata.'];
const ACCESS_FIELDS = ['spec.authenticationService', 'spec.endpoints'];

function names(own: readonly string[]): FieldSpec<Draft>[] {
  return [
    {
      kind: 'text',
      field: 'namespace',
      label: 'Namespace',
      path: 'metadata.namespace',
      isRequired: true,
      isWide: true,
      hint:
        own.length > 0
          ? `Yours: ${own.slice(0, 6).join(', ')}. A new name makes a new namespace, if you have the right.`
          : undefined,
    },
    {
      kind: 'text',
      field: 'name',
      label: 'Name',
      path: 'metadata.name',
      isRequired: true,
      isWide: true,
      autoFocus: true,
      hint: 'Lower-case letters, digits and hyphens. Clients name the space as NAME.NAMESPACE.',
    },
  ];
}

function Basics({ draft, set, schemas }: PartProps) {
  const { may } = useSession();
  const own = may.namespaces.filter((one) => !one.startsWith('enmasse-'));
  return (
    <Form>
      <DraftFields draft={draft} set={set} of={names(own)} />
      <Title headingLevel="h3" size="md">
        Type
      </Title>
      <Choices
        label="Type"
        value={draft.type}
        onChange={(type) => {
          set({ type, plan: schemas.get(type)?.plans?.[0]?.name ?? '' });
        }}
        choices={[...schemas.keys()].reverse().map((type) => ({
          value: type,
          title: type,
          text: TYPE_TEXTS[type] ?? schemas.get(type)?.description,
        }))}
      />
    </Form>
  );
}

function Plan({ draft, set, schemas }: PartProps) {
  const plans = schemas.get(draft.type)?.plans ?? [];
  return (
    <Form>
      <Choices
        label="Plan"
        value={draft.plan}
        onChange={(plan) => {
          set({ plan });
        }}
        choices={plans.map((plan) => ({
          value: plan.name,
          title: plan.displayName ?? plan.name,
          text: (
            <>
              {plan.description}
              <br />
              {[
                quotaText(plan.resourceLimits as Record<string, number | undefined> | undefined),
                ...limitTexts(plan.limits),
              ]
                .filter(Boolean)
                .join(' · ')}
            </>
          ),
        }))}
      />
    </Form>
  );
}

function services(names: readonly string[]): FieldSpec<Draft>[] {
  return [
    {
      kind: 'select',
      field: 'service',
      label: 'Authentication service',
      path: 'spec.authenticationService',
      isWide: true,
      options: [
        { value: '', title: 'The default of the platform' },
        ...names.map((name) => ({ value: name, title: name })),
      ],
      hint: (
        <>
          Who may connect. <code>none</code> admits every client; <code>standard</code> requires a user of the
          space.
        </>
      ),
    },
  ];
}

function Access({ draft, set, schemas }: PartProps) {
  return (
    <Form>
      <DraftFields
        draft={draft}
        set={set}
        of={services(schemas.get(draft.type)?.authenticationServices ?? [])}
      />
      <EndpointFields
        endpoints={draft.endpoints}
        onChange={(endpoints) => {
          set({ endpoints });
        }}
      />
    </Form>
  );
}

function Review({ draft, document }: { draft: Draft; document: AddressSpace }) {
  return (
    <Stack hasGutter>
      <StackItem>
        <Facts
          columns={3}
          of={[
            ['Name', draft.name],
            ['Namespace', draft.namespace],
            ['Type', draft.type],
            ['Plan', draft.plan],
            ['Authentication', draft.service || 'default of the platform'],
            ['Endpoints', draft.endpoints.length > 0 ? String(draft.endpoints.length) : 'built in'],
          ]}
        />
      </StackItem>
      <StackItem>
        <Content component="p">The same without the console:</Content>
        <CodeTabs label="Forms of the document" choices={previewsOf(document)} />
      </StackItem>
    </Stack>
  );
}

export function CreateSpacePage() {
  const { may } = useSession();
  const schemas = useAll<AddressSpaceSchema>(SchemaKind);
  const byType = useMemo(
    () => new Map((schemas.data ?? []).map((one) => [one.metadata.name, one.spec] as const)),
    [schemas.data],
  );
  const { draft, set, touched } = useDraft<Draft>(
    {
      namespace: may.namespaces.find((one) => !one.startsWith('enmasse-')) ?? 'default',
      name: '',
      type: 'standard',
      plan: '',
      service: '',
      endpoints: [],
    },
    PATHS,
  );
  const plan = draft.plan || (byType.get(draft.type)?.plans?.[0]?.name ?? '');
  const complete = { ...draft, plan };
  const document = documentOf(complete);
  const check = useDryRun(AddressSpaceKind, draft.name && draft.namespace ? document : null);
  const client = useQueryClient();
  const navigate = useNavigate();
  const notify = useNotify();
  if (schemas.error) return <Failure error={schemas.error} retry={() => void schemas.refetch()} />;
  if (!schemas.data) return <Loading />;
  const part = { draft: complete, set, schemas: byType };
  const isNamed =
    draft.name !== '' &&
    !faultOf(check.error, 'metadata.name') &&
    !faultOf(check.error, 'metadata.namespace');
  const isTaken = check.error?.reason === 'AlreadyExists';
  return (
    <WizardPage
      title="Create address space"
      crumbs={[{ title: 'Address spaces', to: '/spaces' }, { title: 'Create' }]}
      cancelTo="/spaces"
      isChecking={isNamed && check.isChecking}
      steps={[
        {
          id: 'basics',
          title: 'Name and type',
          content: (
            <CheckedStep check={check} onStep={BASIC_FIELDS} touched={touched}>
              <Basics {...part} />
            </CheckedStep>
          ),
          isComplete: isNamed && !isTaken,
        },
        {
          id: 'plan',
          title: 'Plan',
          content: (
            <CheckedStep check={check}>
              <Plan {...part} />
            </CheckedStep>
          ),
          isComplete: plan !== '' && !faultOf(check.error, 'spec.plan'),
        },
        {
          id: 'access',
          title: 'Access',
          content: (
            <CheckedStep check={check} onStep={ACCESS_FIELDS} touched={touched}>
              <Access {...part} />
            </CheckedStep>
          ),
          isComplete: !check.error,
        },
        {
          id: 'review',
          title: 'Review',
          content: (
            <CheckedStep check={check}>
              <Review draft={complete} document={document} />
            </CheckedStep>
          ),
          isComplete: !check.error,
        },
      ]}
      run={() => create(AddressSpaceKind, document)}
      onDone={() => {
        notify(`Address space ${draft.name} was created.`);
        void client.invalidateQueries({ queryKey: [AddressSpaceKind.plural] });
        void navigate(spacePath(draft.namespace, draft.name));
      }}
    />
  );
}
