import { Button, Stack, StackItem } from '@patternfly/react-core';
import PlusIcon from '@patternfly/react-icons/dist/esm/icons/plus-circle-icon';
import type { ReactNode } from 'react';

/** Several of one thing in a form: each can be changed and removed, and another one added. */

export interface ItemActions<T> {
  set: (change: Partial<T>) => void;
  remove: () => void;
}

export interface ItemListProps<T> {
  items: readonly T[];
  onChange: (items: T[]) => void;
  /** What the button says that adds another one. */
  addTitle: string;
  newItem: (index: number) => T;
  render: (item: T, index: number, actions: ItemActions<T>) => ReactNode;
}

export function ItemList<T>({ items, onChange, addTitle, newItem, render }: ItemListProps<T>) {
  const actions = (index: number): ItemActions<T> => ({
    set: (change) => {
      onChange(items.map((one, at) => (at === index ? { ...one, ...change } : one)));
    },
    remove: () => {
      onChange(items.filter((_item, at) => at !== index));
    },
  });
  return (
    <Stack hasGutter>
      {items.map((item, index) => (
        <StackItem key={index}>{render(item, index, actions(index))}</StackItem>
      ))}
      <StackItem>
        <Button
          variant="link"
          isInline
          icon={<PlusIcon />}
          onClick={() => {
            onChange([...items, newItem(items.length)]);
          }}
        >
          {addTitle}
        </Button>
      </StackItem>
    </Stack>
  );
}
