import {
  ActionGroup,
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  Content,
  Form,
  Grid,
  GridItem,
  Label,
  List,
  ListItem,
  PageSection,
} from '@patternfly/react-core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate, useParams } from 'react-router';
import { parse } from 'yaml';
import { messageOf } from '@/api/errors';
import {
  AddressPlanKind,
  AddressSpacePlanKind,
  AuthServiceKind,
  BrokeredInfraKind,
  StandardInfraKind,
  apiVersionOf,
  type Kind,
} from '@/api/kinds';
import { useResource } from '@/api/list';
import type { Resource } from '@/api/types';
import { create, replace, useDryRun } from '@/api/write';
import { useNotify } from '@/app/notices';
import { Page } from '@/ui/Page';
import { ActionError, Failure, Loading } from '@/ui/States';
import { TextField } from '@/ui/fields';
import { plural } from '@/ui/format';
import { yamlOf } from '@/ui/preview';
import { useAffected } from './affected';
import { differences } from './differences';

/** The document of a plan, an infra config or a service: checked as it is typed, with what it would change. */

const KINDS: readonly Kind[] = [
  AddressPlanKind,
  AddressSpacePlanKind,
  StandardInfraKind,
  BrokeredInfraKind,
  AuthServiceKind,
];
const SECTIONS: Record<string, string> = {
  plans: 'Plans',
  infra: 'Infra configs',
  authentication: 'Authentication services',
};

const TEMPLATES: Record<string, unknown> = {
  AddressPlan: { displayName: '', addressType: 'queue', resources: { router: 0.01, broker: 0.1 } },
  AddressSpacePlan: {
    displayName: '',
    addressSpaceType: 'standard',
    infraConfigRef: 'default',
    addressPlans: ['standard-small-queue', 'standard-small-anycast'],
    resourceLimits: { router: 1, broker: 1, aggregate: 2 },
    limits: { addresses: 100, connections: 100 },
  },
  StandardInfraConfig: { version: '1' },
  BrokeredInfraConfig: { version: '1' },
  AuthenticationService: { type: 'standard' },
};

function template(kind: Kind, namespace: string): string {
  return yamlOf({
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: { name: 'my-' + kind.plural.replace(/s$/, ''), namespace },
    spec: TEMPLATES[kind.kind],
  });
}

function declaredPart(resource: Resource & { status?: unknown }): string {
  const { status: _status, metadata, ...rest } = resource;
  const { name, namespace, labels, annotations, resourceVersion } = metadata;
  const { apiVersion, kind, ...spec } = rest;
  return yamlOf({
    apiVersion,
    kind,
    metadata: { name, namespace, labels, annotations, resourceVersion },
    ...spec,
  });
}

interface Parsed {
  document: Resource | null;
  fault: string | null;
}

function parsed(text: string): Parsed {
  try {
    const document: unknown = parse(text);
    if (typeof document !== 'object' || document === null || !('metadata' in document)) {
      return { document: null, fault: 'The document needs metadata with a name.' };
    }
    return { document: document as Resource, fault: null };
  } catch (error) {
    return { document: null, fault: messageOf(error) };
  }
}

function AffectedCard({
  kind,
  name,
  isNew,
  before,
  after,
}: {
  kind: Kind;
  name: string;
  isNew: boolean;
  before: unknown;
  after: unknown;
}) {
  const affected = useAffected(kind, name, !isNew);
  const changes = isNew ? [] : differences(before, after);
  return (
    <Card isCompact isFullHeight>
      <CardTitle>What this reaches</CardTitle>
      <CardBody>
        {isNew ? <Content component="p">Nothing uses it yet.</Content> : null}
        {affected.data?.map((one) => (
          <div key={one.kind}>
            <Content component="p">
              <strong>{plural(one.total, one.kind.replace(/(e)?s$/, '$1'), one.kind)}</strong> use it.
            </Content>
            <List isPlain>
              {one.names.map((each) => (
                <ListItem key={each}>
                  <bdi>{each}</bdi>
                </ListItem>
              ))}
              {one.total > one.names.length ? (
                <ListItem>and {one.total - one.names.length} more</ListItem>
              ) : null}
            </List>
          </div>
        ))}
        {changes.length > 0 ? (
          <>
            <Content component="h4">Changes</Content>
            <List isPlain>
              {changes.map((change) => (
                <ListItem key={change.path} className="em-break">
                  <code>{change.path}</code>: {change.before} <span aria-label="becomes">→</span>{' '}
                  <strong>{change.after}</strong>
                </ListItem>
              ))}
            </List>
          </>
        ) : null}
      </CardBody>
    </Card>
  );
}

function Editor({
  kind,
  initial,
  isNew,
  name,
  backTo,
}: {
  kind: Kind;
  initial: string;
  isNew: boolean;
  name: string;
  backTo: string;
}) {
  const [text, setText] = useState(initial);
  const { document, fault } = parsed(text);
  const isChanged = isNew || text !== initial;
  const check = useDryRun(kind, isChanged ? document : null, isNew ? 'create' : 'replace');
  const client = useQueryClient();
  const navigate = useNavigate();
  const notify = useNotify();
  const save = useMutation({
    mutationFn: async () => {
      if (!document) return;
      await (isNew ? create(kind, document) : replace(kind, document));
    },
    onSuccess: () => {
      notify(`${document?.metadata.name ?? ''} was saved.`);
      void client.invalidateQueries({ queryKey: [kind.plural] });
      void navigate(backTo);
    },
  });
  return (
    <Grid hasGutter lg={6}>
      <GridItem lg={8}>
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            save.mutate();
          }}
        >
          <TextField label="Document (YAML)" rows={26} isCode value={text} onChange={setText} />
          {fault ? <Alert isInline variant="warning" title={fault} /> : null}
          {!fault && check.error ? (
            <ActionError error={check.error} title="The platform would refuse this" />
          ) : null}
          {check.isAccepted && isChanged ? (
            <Label status="success">The platform would accept this</Label>
          ) : null}
          {save.error ? <ActionError error={save.error} title="Not saved" /> : null}
          <ActionGroup>
            <Button
              type="submit"
              isDisabled={!isChanged || !check.isAccepted || save.isPending}
              isLoading={save.isPending}
            >
              {isNew ? 'Create' : 'Save'}
            </Button>
            <Button variant="link" onClick={() => void navigate(backTo)}>
              Cancel
            </Button>
          </ActionGroup>
        </Form>
      </GridItem>
      <GridItem lg={4}>
        <AffectedCard
          kind={kind}
          name={name}
          isNew={isNew}
          before={parsed(initial).document}
          after={document}
        />
      </GridItem>
    </Grid>
  );
}

export function EditPage() {
  const { kind: pluralName = '', namespace = '', name = '' } = useParams();
  const kind = KINDS.find((one) => one.plural === pluralName);
  const isNew = name === '+';
  const found = useResource<Resource>(kind ?? AddressPlanKind, namespace, name, {
    enabled: kind !== undefined && !isNew,
  });
  const section = location.pathname.split('/')[3] ?? 'plans';
  const backTo = `/operator/${section}`;
  if (!kind) return <Failure error={new Error(`There is no kind ${pluralName}.`)} />;
  const title = isNew ? `Create ${kind.title}` : name;
  return (
    <Page
      title={title}
      subtitle={isNew ? ' ' : `${kind.title} · namespace ${namespace}`}
      crumbs={[{ title: SECTIONS[section] ?? section, to: backTo }, { title: isNew ? 'Create' : name }]}
    >
      <PageSection isFilled>
        {found.error && !found.data ? (
          <Failure error={found.error} retry={() => void found.refetch()} />
        ) : isNew ? (
          <Editor kind={kind} initial={template(kind, namespace)} isNew name="" backTo={backTo} />
        ) : found.data ? (
          <Editor
            key={found.data.metadata.resourceVersion}
            kind={kind}
            initial={declaredPart(found.data)}
            isNew={false}
            name={name}
            backTo={backTo}
          />
        ) : (
          <Loading lines={10} />
        )}
      </PageSection>
    </Page>
  );
}
