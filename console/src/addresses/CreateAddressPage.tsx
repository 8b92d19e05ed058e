import { Content, Form } from '@patternfly/react-core';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from 'react-router';
import { isDeleted } from '@/api/errors';
import { AddressKind } from '@/api/kinds';
import { ADDRESS_TYPES, type Address, type AddressType } from '@/api/types';
import { create, useDryRun } from '@/api/write';
import { useNotify } from '@/app/notices';
import { addressPath, spacePath } from '@/spaces/paths';
import { CheckedStep } from '@/ui/CheckedForm';
import { Choices } from '@/ui/Choices';
import { CodeTabs } from '@/ui/Code';
import { DraftFields, type FieldSpec } from '@/ui/DraftFields';
import { Failure, Loading } from '@/ui/States';
import { WizardPage } from '@/ui/WizardPage';
import { useDraft } from '@/ui/draft';
import { faultOf } from '@/ui/fields';
import { previewsOf, shellWord } from '@/ui/preview';
import { AddressFields } from './AddressFields';
import { useChoices, type SpaceChoices } from './choices';
import { NEW_ADDRESS, documentOf, type AddressDraft } from './draft';
import { TYPE_FACTS } from './types';

const BASIC_FIELDS = ['metadata.name', 'spec.address', 'spec.topic', 'spec.type'];
const SETTING_FIELDS = ['spec.'];

interface PartProps {
  draft: AddressDraft;
  set: (change: Partial<AddressDraft>) => void;
  choices: SpaceChoices;
}

/** Parts of a quota that addresses of a plan use, as text. */
function creditText(plan: { router: number; broker: number; text: string }): string {
  const parts = [
    plan.router ? `router ${String(plan.router)}` : '',
    plan.broker ? `broker ${String(plan.broker)}` : '',
  ].filter(Boolean);
  return [plan.text, parts.join(' · ')].filter(Boolean).join(' ');
}

function names(draft: AddressDraft, topics: readonly string[]): FieldSpec<AddressDraft>[] {
  return [
    {
      kind: 'text',
      field: 'address',
      label: 'Address',
      path: 'spec.address',
      isRequired: true,
      isWide: true,
      hint: 'The name that clients use. Any characters but control characters and wildcards, up to 1,024 bytes.',
    },
    {
      kind: 'select',
      field: 'topic',
      label: 'Topic',
      path: 'spec.topic',
      isRequired: true,
      isWide: true,
      isShown: draft.type === 'subscription',
      options: [
        { value: '', title: topics.length > 0 ? 'Choose a topic' : 'The space has no topic yet' },
        ...topics.map((name) => ({ value: name, title: name })),
      ],
    },
  ];
}

function Basics({ draft, set, choices }: PartProps) {
  return (
    <Form>
      <Choices
        label="Type"
        value={draft.type}
        onChange={(type) => {
          set({ type: type as AddressType, plan: '' });
        }}
        choices={ADDRESS_TYPES.map((type) => ({
          value: type,
          title: TYPE_FACTS[type].title,
          text: choices.types.includes(type)
            ? TYPE_FACTS[type].text
            : `${TYPE_FACTS[type].text} Not in a ${choices.space.spec.type} space.`,
          icon: TYPE_FACTS[type].icon,
          isDisabled: !choices.types.includes(type),
        }))}
      />
      <DraftFields draft={draft} set={set} of={names(draft, choices.topics)} />
    </Form>
  );
}

function Plan({ draft, set, choices }: PartProps) {
  const plans = choices.plansOf(draft.type);
  const { router, broker, aggregate } = choices.quota;
  return (
    <Form>
      <Content component="p">
        Plan <strong>{choices.space.spec.plan}</strong> of the space allows
        {router === undefined ? '' : ` router ${String(router)},`}
        {broker === undefined ? '' : ` broker ${String(broker)},`}
        {aggregate === undefined ? '' : ` both ${String(aggregate)}`} for all addresses together.
      </Content>
      <Choices
        label="Plan"
        value={draft.plan}
        onChange={(plan) => {
          set({ plan });
        }}
        choices={plans.map((plan) => ({ value: plan.name, title: plan.title, text: creditText(plan) }))}
      />
    </Form>
  );
}

function commandOf(
  draft: AddressDraft,
  document: Address,
  space: string,
  namespace: string,
): string | undefined {
  // The command has options for the plain cases; others are the document itself.
  const plain = new Set(['type', 'address', 'plan', 'topic', 'deadletter', 'expiry']);
  if (Object.keys(document.spec).some((name) => !plain.has(name))) return undefined;
  const words = ['enmasse', 'create', 'address', shellWord(draft.address), '--type', draft.type];
  if (document.spec.plan) words.push('--plan', shellWord(document.spec.plan));
  if (document.spec.topic) words.push('--topic', shellWord(document.spec.topic));
  if (document.spec.deadletter) words.push('--deadletter', shellWord(document.spec.deadletter));
  if (document.spec.expiry) words.push('--expiry', shellWord(document.spec.expiry));
  return `${[...words, '--space', space, '--namespace', namespace].join(' ')}\n`;
}

interface WizardProps {
  namespace: string;
  space: string;
  choices: SpaceChoices;
}

function AddressWizard({ namespace, space, choices }: WizardProps) {
  const { draft, set, touched } = useDraft<AddressDraft>(NEW_ADDRESS);
  const plan = draft.plan || (choices.plansOf(draft.type)[0]?.name ?? '');
  const complete = { ...draft, plan };
  const document = documentOf(complete, namespace, space);
  const isAskable = draft.address !== '' && (draft.type !== 'subscription' || draft.topic !== '');
  const check = useDryRun(AddressKind, isAskable ? document : null);
  const client = useQueryClient();
  const navigate = useNavigate();
  const notify = useNotify();
  const part = { draft: complete, set, choices };
  const isTaken = check.error?.reason === 'AlreadyExists';
  const isNamed =
    isAskable && !isTaken && !faultOf(check.error, 'spec.address') && !faultOf(check.error, 'spec.topic');
  const listing = spacePath(namespace, space, 'addresses');
  const command = commandOf(complete, document, space, namespace);
  return (
    <WizardPage
      title="Create address"
      crumbs={[
        { title: 'Address spaces', to: '/spaces' },
        { title: space, to: spacePath(namespace, space) },
        { title: 'Addresses', to: listing },
        { title: 'Create' },
      ]}
      cancelTo={listing}
      isChecking={isAskable && check.isChecking}
      steps={[
        {
          id: 'basics',
          title: 'Type and name',
          content: (
            <CheckedStep check={check} onStep={BASIC_FIELDS} touched={touched}>
              <Basics {...part} />
            </CheckedStep>
          ),
          isComplete: isNamed,
        },
        {
          id: 'plan',
          title: 'Plan',
          content: (
            <CheckedStep check={check}>
              <Plan {...part} />
            </CheckedStep>
          ),
          isComplete: !check.error?.isQuota && !faultOf(check.error, 'spec.plan'),
        },
        {
          id: 'settings',
          title: 'Settings',
          content: (
            <CheckedStep check={check} onStep={SETTING_FIELDS}>
              <Form>
                <AddressFields draft={complete} set={set} deadletters={choices.deadletters} isNew />
              </Form>
            </CheckedStep>
          ),
          isComplete: !check.error,
        },
        {
          id: 'review',
          title: 'Review',
          content: (
            <CheckedStep check={check}>
              <Content component="p">The same without the console:</Content>
              <CodeTabs label="Forms of the document" choices={previewsOf(document, command)} />
            </CheckedStep>
          ),
          isComplete: !check.error,
        },
      ]}
      run={() => create(AddressKind, document)}
      onDone={() => {
        notify(`Address ${draft.address.slice(0, 80)} was created.`);
        void client.invalidateQueries({ queryKey: [AddressKind.plural] });
        void navigate(addressPath(namespace, document.metadata.name));
      }}
    />
  );
}

export function CreateAddressPage() {
  const { namespace = '', space = '' } = useParams();
  const choices = useChoices(namespace, space);
  if (choices.error && (!choices.data || isDeleted(choices.error))) return <Failure error={choices.error} />;
  if (!choices.data) return <Loading label="Loading the choices" lines={8} />;
  return <AddressWizard namespace={namespace} space={space} choices={choices.data} />;
}
