import { Button, Card, CardBody, CardHeader, CardTitle } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { ItemList, type ItemActions, type ItemListProps } from './ItemList';

/** Several of one thing with fields of their own, such as rights or endpoints: a card for each. */

export interface CardListProps<T> extends Omit<ItemListProps<T>, 'render'> {
  titleOf: (item: T, index: number) => string;
  fields: (item: T, index: number, set: ItemActions<T>['set']) => ReactNode;
}

export function CardList<T>({ titleOf, fields, ...list }: CardListProps<T>) {
  return (
    <ItemList
      {...list}
      render={(item, index, { set, remove }) => (
        <Card isCompact>
          <CardHeader
            actions={{
              actions: (
                <Button
                  variant="link"
                  isInline
                  isDanger
                  aria-label={`Remove ${titleOf(item, index)}`}
                  onClick={remove}
                >
                  Remove
                </Button>
              ),
            }}
          >
            <CardTitle>{titleOf(item, index)}</CardTitle>
          </CardHeader>
          <CardBody>{fields(item, index, set)}</CardBody>
        </Card>
      )}
    />
  );
}
