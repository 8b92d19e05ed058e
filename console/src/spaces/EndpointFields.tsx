import {
  Button,
  Card,
  CardBody,
  CardHeader,
  CardTitle,
  Content,
  Grid,
  GridItem,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import PlusIcon from '@patternfly/react-icons/dist/esm/icons/plus-circle-icon';
import { SelectField, TextField } from '@/ui/fields';

/** Endpoints of a space besides the built-in ones: a host name of its own, its certificate, an export. */

export interface EndpointDraft {
  name: string;
  host: string;
  provider: string;
  certificate: string;
  key: string;
  exportKind: string;
  exportName: string;
}

const NEW: EndpointDraft = {
  name: '',
  host: '',
  provider: 'selfsigned',
  certificate: '',
  key: '',
  exportKind: '',
  exportName: '',
};

const PROVIDERS = [
  { value: 'selfsigned', title: 'Signed by the authority of the space' },
  { value: 'certBundle', title: 'A certificate of yours' },
  { value: 'wildcard', title: "The operator's certificate for all spaces" },
];

const EXPORTS = [
  { value: '', title: 'None' },
  { value: 'ConfigMap', title: 'ConfigMap' },
  { value: 'Secret', title: 'Secret' },
  { value: 'Service', title: 'Service' },
];

/** PEM is base64 of bytes that are ASCII. */
function encoded(pem: string): string | undefined {
  return pem ? btoa(pem) : undefined;
}

export function endpointDocument(draft: EndpointDraft) {
  const isOwn = draft.provider === 'certBundle';
  return {
    name: draft.name,
    service: 'messaging' as const,
    cert: {
      provider: draft.provider as 'selfsigned' | 'certBundle' | 'wildcard',
      tlsCert: isOwn ? encoded(draft.certificate) : undefined,
      tlsKey: isOwn ? encoded(draft.key) : undefined,
    },
    expose: draft.host
      ? {
          type: 'route' as const,
          routeHost: draft.host,
          routeServicePort: 'amqps' as const,
          routeTlsTermination: 'passthrough' as const,
        }
      : undefined,
    exports:
      draft.exportKind && draft.exportName
        ? [{ kind: draft.exportKind as 'Secret', name: draft.exportName }]
        : [],
  };
}

interface OneProps {
  draft: EndpointDraft;
  index: number;
  set: (change: Partial<EndpointDraft>) => void;
  remove: () => void;
}

function OneEndpoint({ draft, index, set, remove }: OneProps) {
  const path = `spec.endpoints[${String(index)}]`;
  return (
    <Card isCompact>
      <CardHeader
        actions={{
          actions: (
            <Button variant="link" isInline isDanger onClick={remove}>
              Remove
            </Button>
          ),
        }}
      >
        <CardTitle>Endpoint {draft.name || index + 1}</CardTitle>
      </CardHeader>
      <CardBody>
        <Grid hasGutter md={6}>
          <GridItem>
            <TextField
              label="Name"
              path={`${path}.name`}
              value={draft.name}
              isRequired
              onChange={(name) => {
                set({ name });
              }}
            />
          </GridItem>
          <GridItem>
            <TextField
              label="Host name"
              path={`${path}.expose`}
              value={draft.host}
              placeholder="messages.example.com"
              hint="DNS must resolve it to the platform. Clients of this host get this space."
              onChange={(host) => {
                set({ host });
              }}
            />
          </GridItem>
          <GridItem>
            <SelectField
              label="Certificate"
              path={`${path}.cert`}
              value={draft.provider}
              options={PROVIDERS}
              onChange={(provider) => {
                set({ provider });
              }}
            />
          </GridItem>
          <GridItem>
            <SelectField
              label="Export the settings to"
              path={`${path}.exports`}
              value={draft.exportKind}
              options={EXPORTS}
              onChange={(exportKind) => {
                set({ exportKind });
              }}
            />
          </GridItem>
          {draft.provider === 'certBundle' ? (
            <>
              <GridItem>
                <TextField
                  label="Certificate chain (PEM)"
                  rows={4}
                  isCode
                  value={draft.certificate}
                  onChange={(certificate) => {
                    set({ certificate });
                  }}
                />
              </GridItem>
              <GridItem>
                <TextField
                  label="Private key (PEM)"
                  rows={4}
                  isCode
                  value={draft.key}
                  onChange={(key) => {
                    set({ key });
                  }}
                />
              </GridItem>
            </>
          ) : null}
          {draft.exportKind ? (
            <GridItem>
              <TextField
                label={`Name of the ${draft.exportKind}`}
                value={draft.exportName}
                onChange={(exportName) => {
                  set({ exportName });
                }}
              />
            </GridItem>
          ) : null}
        </Grid>
      </CardBody>
    </Card>
  );
}

export interface EndpointFieldsProps {
  endpoints: readonly EndpointDraft[];
  onChange: (endpoints: EndpointDraft[]) => void;
}

export function EndpointFields({ endpoints, onChange }: EndpointFieldsProps) {
  return (
    <Stack hasGutter>
      <StackItem>
        <Content component="p">
          Clients can use every listener of the platform without an endpoint. Add one for a host name or a
          certificate of your own.
        </Content>
      </StackItem>
      {endpoints.map((draft, index) => (
        <StackItem key={index}>
          <OneEndpoint
            draft={draft}
            index={index}
            set={(change) => {
              onChange(endpoints.map((one, at) => (at === index ? { ...one, ...change } : one)));
            }}
            remove={() => {
              onChange(endpoints.filter((_one, at) => at !== index));
            }}
          />
        </StackItem>
      ))}
      <StackItem>
        <Button
          variant="link"
          isInline
          icon={<PlusIcon />}
          onClick={() => {
            onChange([...endpoints, { ...NEW, name: `endpoint-${String(endpoints.length + 1)}` }]);
          }}
        >
          Add an endpoint
        </Button>
      </StackItem>
    </Stack>
  );
}
