import {
  ClipboardCopyButton,
  CodeBlock,
  CodeBlockAction,
  CodeBlockCode,
  Tab,
  TabTitleText,
  Tabs,
} from '@patternfly/react-core';
import { useId, useState } from 'react';

const COPIED_MS = 2_000;

/** Text to copy: a command, a document, a certificate. */
export function Code({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [isCopied, setIsCopied] = useState(false);
  const id = useId();
  const copy = () => {
    // The clipboard is absent on pages without TLS from another machine.
    void (navigator.clipboard as Clipboard | undefined)?.writeText(text).then(() => {
      setIsCopied(true);
      setTimeout(() => {
        setIsCopied(false);
      }, COPIED_MS);
    });
  };
  return (
    <CodeBlock
      actions={
        <CodeBlockAction>
          <ClipboardCopyButton
            id={`${id}-copy`}
            textId={id}
            aria-label={label}
            onClick={copy}
            variant="plain"
          >
            {isCopied ? 'Copied' : label}
          </ClipboardCopyButton>
        </CodeBlockAction>
      }
    >
      <CodeBlockCode id={id} tabIndex={0}>
        {text}
      </CodeBlockCode>
    </CodeBlock>
  );
}

export interface CodeChoice {
  title: string;
  text: string;
}

/** The same thing in several forms, one at a time. */
export function CodeTabs({ choices, label }: { choices: readonly CodeChoice[]; label: string }) {
  const [chosen, setChosen] = useState(0);
  const panel = useId();
  const current = choices[Math.min(chosen, choices.length - 1)];
  return (
    <>
      <Tabs
        activeKey={chosen}
        onSelect={(_event, key) => {
          setChosen(Number(key));
        }}
        aria-label={label}
        isSubtab
      >
        {choices.map((choice, index) => (
          <Tab
            key={choice.title}
            eventKey={index}
            tabContentId={panel}
            title={<TabTitleText>{choice.title}</TabTitleText>}
          />
        ))}
      </Tabs>
      <div id={panel} role="tabpanel" aria-label={current?.title}>
        {current ? <Code text={current.text} /> : null}
      </div>
    </>
  );
}
