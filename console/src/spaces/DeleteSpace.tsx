import { Content, TextInput } from '@patternfly/react-core';
import { useState } from 'react';
import { AddressSpaceKind } from '@/api/kinds';
import type { AddressSpace } from '@/api/types';
import { remove } from '@/api/write';
import { Confirm } from '@/ui/Confirm';
import { plural } from '@/ui/format';

export interface DeleteSpaceProps {
  space: AddressSpace;
  stored: number | undefined;
  onClose: () => void;
  onDone: () => void;
}

/** Deleting a space deletes all it holds, so its name is to be typed. */
export function DeleteSpace({ space, stored, onClose, onDone }: DeleteSpaceProps) {
  const [typed, setTyped] = useState('');
  const { name } = space.metadata;
  return (
    <Confirm
      title="Delete address space?"
      action="Delete"
      isDisabled={typed !== name}
      run={() => remove(AddressSpaceKind, space)}
      onDone={onDone}
      onClose={onClose}
    >
      <Content component="p">
        <bdi>
          <strong>{name}</strong>
        </bdi>{' '}
        with all its addresses, users
        {stored ? <> and {plural(stored, 'stored message')}</> : ' and stored messages'} will be deleted. Its
        clients are disconnected. This cannot be undone.
      </Content>
      <Content component="p">
        Type <strong>{name}</strong> to confirm.
      </Content>
      <TextInput
        aria-label="Name of the address space"
        value={typed}
        onChange={(_event, value) => {
          setTyped(value);
        }}
      />
    </Confirm>
  );
}
