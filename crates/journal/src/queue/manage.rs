//! Operations of administrators on messages: peek, remove and move. They run in slices to bound the
//! time of a turn.

use super::Queue;
use super::effect::{Cause, Effect, Item, Target, Verdict};
use super::entry::{Seq, State};
use super::plain;
use super::settings::Settings;

/// What an operation does to matching messages that no consumer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// nothing: peek, copy, or a dry run; the caller sees them in `matches`
    Look,
    /// removed, [`Cause::Purged`]
    Purge,
    /// [`Effect::Divert`] [`Target::Elsewhere`]: move, or redrive
    Move,
}

/// A slice of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// the operation
    pub operation: Operation,
    /// where to begin: 0, or `next` of the slice before
    pub from: Seq,
    /// where to end: [`Queue::next_seq`] at the start of the operation, so that it terminates
    pub until: Seq,
    /// messages to examine at most
    pub share: usize,
}

/// The progress of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// messages examined
    pub looked: usize,
    /// examined messages that matched
    pub matched: usize,
    /// where the next slice begins; `None`: done
    pub next: Option<Seq>,
    /// the message whose body must be read for `matches`; the next slice begins with it
    pub unread: Option<Item>,
}

impl Queue {
    /// Runs a slice of an operation on the waiting, scheduled and delayed messages, in the order of
    /// their numbers. `matches` selects them.
    pub fn administer(
        &mut self,
        slice: Slice,
        mut matches: impl FnMut(&Item) -> Verdict,
        sink: &mut impl FnMut(Effect),
    ) -> Progress {
        let mut progress = Progress::default();
        let mut from = slice.from.0;
        while let Some(at) = self.index.next_live(from).filter(|at| *at < slice.until.0) {
            if progress.looked == slice.share {
                progress.next = Some(Seq(at));
                return progress;
            }
            from = at + 1;
            progress.looked += 1;
            let Some(item) = self.item(at).filter(|item| is_free(item.state)) else { continue };
            match matches(&item) {
                Verdict::No => continue,
                Verdict::Yes => progress.matched += 1,
                Verdict::Unread => {
                    progress.next = Some(Seq(at));
                    progress.unread = Some(item);
                    return progress;
                }
            }
            match slice.operation {
                Operation::Look => {}
                Operation::Purge => self.finish(at, Cause::Purged, sink),
                Operation::Move => {
                    self.divert_to(at, Target::Elsewhere, Cause::Moved, sink);
                }
            }
        }
        progress
    }

    /// All messages at or after `from` in any state, in the order of their numbers. Compaction uses
    /// it to find the messages of a segment. Each is O(log n).
    pub fn iter(&self, from: Seq) -> impl Iterator<Item = Item> {
        let mut from = from.0;
        std::iter::from_fn(move || {
            let at = self.index.next_live(from)?;
            from = at + 1;
            self.item(at)
        })
    }

    /// Applies a changed declaration. Times to live, groups and keys of stored messages do not
    /// change.
    pub fn reconfigure(&mut self, settings: Settings) {
        self.consumers.configure(&settings);
        self.duplicate_history.configure(settings.duplicates);
        if settings.grouping != self.settings.grouping {
            self.groups.forget_idle(|_| true);
        }
        self.accepts_plain = plain::accepts_plain(&settings);
        self.settings = settings;
    }
}

/// Whether no consumer holds the message, and it is not leaving.
const fn is_free(state: State) -> bool {
    matches!(state, State::Waiting | State::Scheduled | State::Delayed)
}
