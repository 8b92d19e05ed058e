import {
  Alert,
  Card,
  CardBody,
  CardTitle,
  Content,
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
import { isDeleted, messageOf } from '@/api/errors';
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
import { SaveForm } from '@/ui/CheckedForm';
import { Page } from '@/ui/Page';
import { ActionError, Failure, Loading } from '@/ui/States';
import { TextField } from '@/ui/fields';
import { plural } from '@/ui/format';
import { yamlOf } from '@/ui/preview';
import { useChangeReview, type Affected, type Change } from './affected';
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

const SHOWN_MAX = 10;
/** The document is one text. */
const NO_FIELDS: readonly string[] = [];

function written(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function ChangeLine({ field, before, after }: Change) {
  return (
    <ListItem className="em-break">
      <code>{field}</code>: {written(before)} <span aria-label="becomes">→</span>{' '}
      <strong>{written(after)}</strong>
    </ListItem>
  );
}

function AffectedList({ title, many, affected }: { title: string; many: string; affected: Affected }) {
  if (affected.total === 0) return null;
  return (
    <>
      <Content component="h4">{plural(affected.total, title, many)}</Content>
      <List isPlain isBordered>
        {affected.items.slice(0, SHOWN_MAX).map((one) => (
          <ListItem key={`${one.namespace}/${one.resource}`}>
            <bdi className="em-break">
              {one.namespace}/{one.name}
            </bdi>
            <List>
              {one.changes.map((change) => (
                <ChangeLine key={change.field} {...change} />
              ))}
            </List>
          </ListItem>
        ))}
        {affected.total > SHOWN_MAX ? <ListItem>and {affected.total - SHOWN_MAX} more</ListItem> : null}
      </List>
    </>
  );
}

/** What a document changes in the resource, and what that changes for tenants. */
function ImpactCard({ document, before }: { document: Resource | null; before: Resource | null }) {
  const review = useChangeReview(document);
  const changes = before && document ? differences(before, document) : [];
  const found = review.data;
  return (
    <Card isCompact isFullHeight>
      <CardTitle>What this changes</CardTitle>
      <CardBody>
        {document === null ? (
          <Content component="p">Change the document to see which addresses are affected, and how.</Content>
        ) : null}
        {review.isFetching ? <Content component="p">The platform computes the effects …</Content> : null}
        {review.error ? <ActionError error={review.error} title="The effects are not known" /> : null}
        {found ? (
          <div aria-live="polite">
            {found.addressSpaces.total + found.addresses.total === 0 ? (
              <Content component="p">No address space and no address is affected.</Content>
            ) : null}
            <AffectedList title="address space" many="address spaces" affected={found.addressSpaces} />
            <AffectedList title="address" many="addresses" affected={found.addresses} />
          </div>
        ) : null}
        {changes.length > 0 ? (
          <>
            <Content component="h4">In the document</Content>
            <List isPlain>
              {changes.map((change) => (
                <ChangeLine
                  key={change.path}
                  field={change.path}
                  before={change.before}
                  after={change.after}
                />
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
  backTo,
}: {
  kind: Kind;
  initial: string;
  isNew: boolean;
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
        <SaveForm
          check={check}
          save={save}
          isReady={isChanged && check.isAccepted}
          action={isNew ? 'Create' : 'Save'}
          leave={{ title: 'Cancel', run: () => void navigate(backTo) }}
          fields={NO_FIELDS}
        >
          <TextField label="Document (YAML)" rows={20} isCode value={text} onChange={setText} />
          {fault ? <Alert isInline variant="warning" title={fault} /> : null}
          {check.isAccepted && isChanged ? (
            <Label status="success">The platform would accept this</Label>
          ) : null}
        </SaveForm>
      </GridItem>
      <GridItem lg={4}>
        <ImpactCard
          document={isChanged && check.isAccepted ? document : null}
          before={isNew ? null : parsed(initial).document}
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
        {found.error && (!found.data || isDeleted(found.error)) ? (
          <Failure error={found.error} retry={() => void found.refetch()} />
        ) : isNew ? (
          <Editor kind={kind} initial={template(kind, namespace)} isNew backTo={backTo} />
        ) : found.data ? (
          <Editor
            key={found.data.metadata.resourceVersion}
            kind={kind}
            initial={declaredPart(found.data)}
            isNew={false}
            backTo={backTo}
          />
        ) : (
          <Loading lines={10} />
        )}
      </PageSection>
    </Page>
  );
}
