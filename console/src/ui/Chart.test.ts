import { expect, it } from 'vitest';
import { labelled } from './Chart';
import { rate } from './format';

it('names values that read the same once on an axis', () => {
  expect(labelled([0, 0.02, 0.04, 0.2], rate)).toEqual(['0', '<0.1', '', '0.2']);
});
