import { Card, CardBody, CardTitle, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { AddressKind } from '@/api/kinds';
import type { Address } from '@/api/types';
import { replace, useDryRun } from '@/api/write';
import { useNotify } from '@/app/notices';
import { SaveForm } from '@/ui/CheckedForm';
import { Code } from '@/ui/Code';
import { DraftFields, type FieldSpec } from '@/ui/DraftFields';
import { Failure, Loading } from '@/ui/States';
import { useDraft } from '@/ui/draft';
import { pruned, yamlOf } from '@/ui/preview';
import { AddressFields } from './AddressFields';
import { useAddress } from './AddressLayout';
import { useChoices, type SpaceChoices } from './choices';
import { draftOf, settingsOf, type AddressDraft } from './draft';

/** The address with other settings; what the form has no field for stays. */
function changed(address: Address, draft: ReturnType<typeof draftOf>): Address {
  const spec = { ...address.spec, ...settingsOf(draft) };
  const { status: _status, ...rest } = address;
  return pruned({ ...rest, spec }) as Address;
}

function SettingsForm({ address, choices }: { address: Address; choices: SpaceChoices }) {
  const { draft, set } = useDraft<AddressDraft>(() => draftOf(address.spec));
  const [before] = useState(() => JSON.stringify(draftOf(address.spec)));
  const document = changed(address, draft);
  const isChanged = JSON.stringify(draft) !== before;
  const check = useDryRun(AddressKind, isChanged ? document : null, 'replace');
  const client = useQueryClient();
  const notify = useNotify();
  const save = useMutation({
    mutationFn: () => replace(AddressKind, document),
    onSuccess: () => {
      notify('The settings were saved.');
      void client.invalidateQueries({ queryKey: [AddressKind.plural] });
    },
  });
  const plans: FieldSpec<AddressDraft>[] = [
    {
      kind: 'select',
      field: 'plan',
      label: 'Plan',
      path: 'spec.plan',
      isWide: true,
      options: choices.plansOf(draft.type).map((plan) => ({ value: plan.name, title: plan.title })),
    },
  ];
  return (
    <SaveForm
      check={check}
      save={save}
      isReady={isChanged && check.isAccepted}
      action="Save"
      leave={{
        title: 'Reset',
        isDisabled: !isChanged,
        run: () => {
          set(draftOf(address.spec));
        },
      }}
    >
      <DraftFields draft={draft} set={set} of={plans} />
      <AddressFields draft={draft} set={set} deadletters={choices.deadletters} isNew={false} />
    </SaveForm>
  );
}

export function SettingsPage() {
  const { address, namespace, space, may } = useAddress();
  const choices = useChoices(namespace, space);
  const { status: _status, ...declared } = address;
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        {may('update', AddressKind) ? (
          <StackItem>
            <Card isCompact>
              <CardTitle>Settings</CardTitle>
              <CardBody>
                {choices.error && !choices.data ? (
                  <Failure error={choices.error} />
                ) : choices.data ? (
                  <SettingsForm
                    key={address.metadata.resourceVersion}
                    address={address}
                    choices={choices.data}
                  />
                ) : (
                  <Loading />
                )}
              </CardBody>
            </Card>
          </StackItem>
        ) : null}
        <StackItem>
          <Card isCompact>
            <CardTitle>Document</CardTitle>
            <CardBody>
              <Code text={yamlOf(declared)} />
            </CardBody>
          </Card>
        </StackItem>
      </Stack>
    </PageSection>
  );
}
