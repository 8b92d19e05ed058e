import { Button, type ButtonProps } from '@patternfly/react-core';

/**
 * A button that starts an action once. The second click of a double click does nothing: the action may have ended
 * by then, or another button may stand at its place, such as Create where Next was.
 */
export function ActionButton({ onClick, ...props }: ButtonProps) {
  return (
    <Button
      {...props}
      onClick={(event) => {
        if (event.detail > 1) event.preventDefault();
        else onClick?.(event);
      }}
    />
  );
}
