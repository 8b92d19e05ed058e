import { Button, Card, CardBody, CardHeader, CardTitle, Stack, StackItem } from '@patternfly/react-core';
import PlusIcon from '@patternfly/react-icons/dist/esm/icons/plus-circle-icon';
import type { ReactNode } from 'react';

/** Several of one thing in a form, such as rights or endpoints: a card for each, which can be removed. */

export interface CardListProps<T> {
  items: readonly T[];
  onChange: (items: T[]) => void;
  titleOf: (item: T, index: number) => string;
  /** What the button says that adds another one. */
  addTitle: string;
  newItem: (index: number) => T;
  fields: (item: T, index: number, set: (change: Partial<T>) => void) => ReactNode;
}

export function CardList<T>({ items, onChange, titleOf, addTitle, newItem, fields }: CardListProps<T>) {
  return (
    <Stack hasGutter>
      {items.map((item, index) => (
        <StackItem key={index}>
          <Card isCompact>
            <CardHeader
              actions={{
                actions: (
                  <Button
                    variant="link"
                    isInline
                    isDanger
                    aria-label={`Remove ${titleOf(item, index)}`}
                    onClick={() => {
                      onChange(items.filter((_item, at) => at !== index));
                    }}
                  >
                    Remove
                  </Button>
                ),
              }}
            >
              <CardTitle>{titleOf(item, index)}</CardTitle>
            </CardHeader>
            <CardBody>
              {fields(item, index, (change) => {
                onChange(items.map((one, at) => (at === index ? { ...one, ...change } : one)));
              })}
            </CardBody>
          </Card>
        </StackItem>
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
