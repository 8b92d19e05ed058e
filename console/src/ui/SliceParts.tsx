import { Button, SearchInput } from '@patternfly/react-core';
import RedoIcon from '@patternfly/react-icons/dist/esm/icons/redo-icon';
import { useState, type ReactNode } from 'react';
import { plural } from './format';

/** Parts of the pages that read a list slice by slice: messages, retained messages, MQTT sessions. */

/** The name of a row, which opens its details. */
export function RowButton({ onClick, children }: { onClick: () => void; children: ReactNode }) {
  return (
    <Button variant="link" isInline onClick={onClick}>
      {children}
    </Button>
  );
}

export function ReadAgain({ onClick }: { onClick: () => void }) {
  return <Button variant="plain" aria-label="Read again" icon={<RedoIcon />} onClick={onClick} />;
}

/** A selector or filter; it is asked for when the person ends it, not at each letter. */
export function ExpressionSearch(props: {
  label: string;
  example: string;
  /** The expression asked for at the beginning. */
  initial: string;
  onSearch: (expression: string) => void;
}) {
  const [typed, setTyped] = useState(props.initial);
  const search = (text: string) => {
    setTyped(text);
    props.onSearch(text);
  };
  return (
    <SearchInput
      aria-label={props.label}
      placeholder={`${props.label}: ${props.example}`}
      value={typed}
      onChange={(_event, value) => {
        setTyped(value);
      }}
      onSearch={(_event, value) => {
        search(value);
      }}
      onClear={() => {
        search('');
      }}
    />
  );
}

interface More {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

/** Reads the next slice of an infinite query; nothing where there is none. `rest` is how many there are, if known. */
export function ShowMore(props: { found: More; rows: number; word: string; rest?: number }) {
  const { found, rows, word, rest } = props;
  if (!found.hasNextPage) return null;
  return (
    <Button variant="link" isLoading={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
      Show more ({plural(rows, word)} so far{rest ? `, ${rest.toLocaleString('en')} more` : ''})
    </Button>
  );
}
