import { Content, List, ListItem, Spinner } from '@patternfly/react-core';
import { useQueries } from '@tanstack/react-query';
import { beginAction } from '@/api/http';
import { AddressKind } from '@/api/kinds';
import { operate, operateAll } from '@/api/messages';
import type { Address } from '@/api/types';
import { remove } from '@/api/write';
import { Confirm } from '@/ui/Confirm';
import { exact, plural } from '@/ui/format';
import { isManaged } from './types';

/** Delete or purge several addresses, naming how many messages that costs. */

export interface Bulk {
  action: 'delete' | 'purge';
  addresses: readonly Address[];
}

const LISTED_MAX = 8;

/** How many messages an address stores now; null where they are not counted one by one. */
function useCounts(addresses: readonly Address[]): { total: number | undefined } {
  const counts = useQueries({
    queries: addresses.filter(isManaged).map((address) => ({
      queryKey: ['count', address.metadata.uid],
      queryFn: async () => {
        const known = address.status?.statistics?.stored.messages;
        if (known !== undefined) return known;
        return (await operate(address, 'purge', { dryRun: true })).messages;
      },
      gcTime: 0,
    })),
  });
  if (counts.some((one) => one.isPending)) return { total: undefined };
  return { total: counts.reduce((sum, one) => sum + (one.data ?? 0), 0) };
}

export interface BulkDialogProps {
  bulk: Bulk;
  onClose: () => void;
  onDone: (report: string) => void;
}

export function BulkDialog({ bulk, onClose, onDone }: BulkDialogProps) {
  const { action, addresses } = bulk;
  const { total } = useCounts(addresses);
  const what = plural(addresses.length, 'address', 'addresses');
  const run = async () => {
    const requireSameUser = beginAction();
    let purged = 0;
    for (const address of addresses) {
      requireSameUser();
      if (action === 'delete') await remove(AddressKind, address);
      else purged += await operateAll(address, 'purge', {});
    }
    if (action === 'delete') return `${what} deleted.`;
    return `${plural(purged, 'message')} purged from ${what}.`;
  };
  return (
    <Confirm
      title={action === 'delete' ? `Delete ${what}?` : `Purge ${what}?`}
      action={action === 'delete' ? 'Delete' : 'Purge'}
      run={run}
      onDone={onDone}
      onClose={onClose}
    >
      <List>
        {addresses.slice(0, LISTED_MAX).map((address) => (
          <ListItem key={address.metadata.uid}>
            <bdi>{address.spec.address}</bdi>
          </ListItem>
        ))}
        {addresses.length > LISTED_MAX ? <ListItem>and {addresses.length - LISTED_MAX} more</ListItem> : null}
      </List>
      <Content component="p" aria-live="polite">
        {total === undefined ? (
          <Spinner size="sm" aria-label="Counting messages" />
        ) : (
          <strong>{exact(total)}</strong>
        )}{' '}
        stored {total === 1 ? 'message' : 'messages'} will be lost. This cannot be undone.
      </Content>
    </Confirm>
  );
}
