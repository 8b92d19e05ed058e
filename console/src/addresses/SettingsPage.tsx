import {
  ActionGroup,
  Button,
  Card,
  CardBody,
  CardTitle,
  Form,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError } from '@/api/errors';
import { AddressKind } from '@/api/kinds';
import type { Address } from '@/api/types';
import { replace, useDryRun } from '@/api/write';
import { useNotify } from '@/app/notices';
import { Code } from '@/ui/Code';
import { ActionError, Failure, Loading } from '@/ui/States';
import { FaultsProvider, SelectField } from '@/ui/fields';
import { pruned, yamlOf } from '@/ui/preview';
import { AddressFields } from './AddressFields';
import { useAddress } from './AddressLayout';
import { useChoices, type SpaceChoices } from './choices';
import { draftOf, settingsOf } from './draft';

/** The address with other settings; what the form has no field for stays. */
function changed(address: Address, draft: ReturnType<typeof draftOf>): Address {
  const spec = { ...address.spec, ...settingsOf(draft) };
  const { status: _status, ...rest } = address;
  return pruned({ ...rest, spec }) as Address;
}

function SettingsForm({ address, choices }: { address: Address; choices: SpaceChoices }) {
  const [draft, setDraft] = useState(() => draftOf(address.spec));
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
  const error = save.error ?? (check.error && check.error.causes.length === 0 ? check.error : null);
  return (
    <FaultsProvider value={{ error: check.error, touched: 'all' }}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <SelectField
          label="Plan"
          path="spec.plan"
          value={draft.plan}
          onChange={(plan) => {
            setDraft({ ...draft, plan });
          }}
          options={choices.plansOf(draft.type).map((plan) => ({ value: plan.name, title: plan.title }))}
        />
        <AddressFields
          draft={draft}
          set={(change) => {
            setDraft({ ...draft, ...change });
          }}
          deadletters={choices.deadletters}
          isNew={false}
        />
        {error ? (
          <ActionError
            error={error}
            title={
              error instanceof ApiError && error.status === 409
                ? 'It was changed meanwhile'
                : 'The settings were not saved'
            }
          />
        ) : null}
        <ActionGroup>
          <Button
            type="submit"
            isDisabled={!isChanged || !check.isAccepted || save.isPending}
            isLoading={save.isPending}
          >
            Save
          </Button>
          <Button
            variant="link"
            isDisabled={!isChanged}
            onClick={() => {
              setDraft(draftOf(address.spec));
            }}
          >
            Reset
          </Button>
        </ActionGroup>
      </Form>
    </FaultsProvider>
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
