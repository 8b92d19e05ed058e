import { Card, CardBody, CardHeader, CardTitle, Content, Gallery, Label } from '@patternfly/react-core';
import { useId, type ComponentType, type ReactNode } from 'react';

/** One choice of a few, each with what it means. */

export interface Choice {
  value: string;
  title: string;
  text?: ReactNode;
  icon?: ComponentType;
  label?: string;
  isDisabled?: boolean;
}

export interface ChoicesProps {
  label: string;
  choices: readonly Choice[];
  value: string;
  onChange: (value: string) => void;
  minWidth?: string;
}

export function Choices({ label, choices, value, onChange, minWidth = '240px' }: ChoicesProps) {
  const id = useId();
  return (
    <Gallery hasGutter minWidths={{ default: minWidth }} role="radiogroup" aria-label={label}>
      {choices.map((choice) => {
        const Icon = choice.icon;
        return (
          <Card
            key={choice.value}
            id={`${id}${choice.value}`}
            isSelectable
            isCompact
            isSelected={choice.value === value}
            isDisabled={choice.isDisabled ?? false}
          >
            <CardHeader
              selectableActions={{
                variant: 'single',
                selectableActionId: `${id}${choice.value}-input`,
                selectableActionAriaLabelledby: `${id}${choice.value}-title`,
                name: id,
                isChecked: choice.value === value,
                isHidden: true,
                onChange: () => {
                  onChange(choice.value);
                },
              }}
            >
              <CardTitle>
                {Icon ? <Icon /> : null} {choice.title}{' '}
                {choice.label ? (
                  <Label isCompact variant="outline">
                    {choice.label}
                  </Label>
                ) : null}
              </CardTitle>
            </CardHeader>
            {choice.text ? (
              <CardBody>
                <Content component="small">{choice.text}</Content>
              </CardBody>
            ) : null}
          </Card>
        );
      })}
    </Gallery>
  );
}
