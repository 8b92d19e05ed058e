//! Operations of administrators on messages: peek, remove, move; in slices, so that no turn takes
//! long.

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
    /// where to end: [`Queue::next_seq`] when the operation began, so that it does
    pub until: Seq,
    /// messages to look at
    pub share: usize,
}

/// How far a slice has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// messages examined
    pub looked: usize,
    /// of them those that matched
    pub matched: usize,
    /// where the next slice begins; `None`: done
    pub next: Option<Seq>,
    /// the message whose body `matches` has to read first: `next` begins with it
    pub unread: Option<Item>,
}

impl Queue {
    /// Runs a slice of an operation on the messages that no consumer holds, waiting or scheduled,
    /// in the order of their numbers. `matches` is asked about each.
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

    /// All messages at or after `from` in any state, in the order of their numbers: to find those
    /// of a segment to compact. Each is O(log n).
    pub fn iter(&self, from: Seq) -> impl Iterator<Item = Item> {
        let mut from = from.0;
        std::iter::from_fn(move || {
            let at = self.index.next_live(from)?;
            from = at + 1;
            self.item(at)
        })
    }

    /// The declaration has changed. Times to live, groups and keys of messages that are here stay
    /// as they are.
    pub fn reconfigure(&mut self, settings: Settings) {
        self.consumers.configure(&settings);
        self.seen.configure(settings.duplicates);
        if settings.grouping != self.settings.grouping {
            self.groups.forget_idle(|_| true);
        }
        self.accepts_plain = plain::accepts_plain(&settings);
        self.settings = settings;
    }
}

/// No consumer holds it, and it is not leaving.
const fn is_free(state: State) -> bool {
    matches!(state, State::Waiting | State::Scheduled | State::Delayed)
}
