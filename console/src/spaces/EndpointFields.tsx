import { Content } from '@patternfly/react-core';
import { CardList } from '@/ui/CardList';
import { DraftFields, type FieldSpec } from '@/ui/DraftFields';

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

function fieldsOf(draft: EndpointDraft, index: number): FieldSpec<EndpointDraft>[] {
  const path = `spec.endpoints[${String(index)}]`;
  const isOwn = draft.provider === 'certBundle';
  return [
    { kind: 'text', field: 'name', label: 'Name', path: `${path}.name`, isRequired: true },
    {
      kind: 'text',
      field: 'host',
      label: 'Host name',
      path: `${path}.expose`,
      placeholder: 'messages.example.com',
      hint: 'DNS must resolve it to the platform. Clients of this host get this space.',
    },
    { kind: 'select', field: 'provider', label: 'Certificate', path: `${path}.cert`, options: PROVIDERS },
    {
      kind: 'select',
      field: 'exportKind',
      label: 'Export the settings to',
      path: `${path}.exports`,
      options: EXPORTS,
    },
    {
      kind: 'text',
      field: 'certificate',
      label: 'Certificate chain (PEM)',
      rows: 4,
      isCode: true,
      isShown: isOwn,
    },
    { kind: 'text', field: 'key', label: 'Private key (PEM)', rows: 4, isCode: true, isShown: isOwn },
    {
      kind: 'text',
      field: 'exportName',
      label: `Name of the ${draft.exportKind}`,
      isShown: draft.exportKind !== '',
    },
  ];
}

export interface EndpointFieldsProps {
  endpoints: readonly EndpointDraft[];
  onChange: (endpoints: EndpointDraft[]) => void;
}

export function EndpointFields({ endpoints, onChange }: EndpointFieldsProps) {
  return (
    <>
      <Content component="p">
        Clients can use every listener of the platform without an endpoint. Add one for a host name or a
        certificate of your own.
      </Content>
      <CardList
        items={endpoints}
        onChange={onChange}
        titleOf={(draft, index) => `Endpoint ${draft.name || String(index + 1)}`}
        addTitle="Add an endpoint"
        newItem={(index) => ({ ...NEW, name: `endpoint-${String(index + 1)}` })}
        fields={(draft, index, set) => <DraftFields draft={draft} set={set} of={fieldsOf(draft, index)} />}
      />
    </>
  );
}
