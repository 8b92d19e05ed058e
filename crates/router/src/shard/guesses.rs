//! Delays for clients that guess passwords. Pure: time comes in as an argument.
//!
//! | attempt for a user | has to wait |
//! |---|---|
//! | from a source with fewer than [`FREE_FAILURES`] wrong passwords for this user | not at all |
//! | with more | 1 s after the last of them, 2 s, 4 s, ... at most a minute |
//! | the same, from a source from which this user has logged in within a day | at most 2 s |
//! | from a new source with a wrong password, for a user with many of them in the last minute | a minute after the source's last one |
//! | from any new source, after [`USER_PER_SECOND`] such attempts for the user within a second | until the next second |
//!
//! So each of many guessing sources gets one attempt a minute. The user logs in at once from a
//! known source, and from a new source once the guessing sources have used their first attempts.
//! Names of nonexistent users are treated alike.
//!
//! Memory is bounded: there are two generations, and the older is dropped when the newer is full.
//! Successes and failures have separate maps, so that guesses cannot evict successes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use enmasse_amqp::time::Time;

use crate::table::SpaceKey;

/// Wrong passwords of one source for one user without a delay: users mistype.
const FREE_FAILURES: u32 = 5;
const FIRST_WAIT_MS: u64 = 1_000;
const WAIT_MAX_MS: u64 = 60_000;
/// The longest wait of a source from which the user has logged in.
const KNOWN_WAIT_MAX_MS: u64 = 2_000;
/// How long a success counts.
const KNOWN_MS: u64 = 24 * 3600 * 1000;
/// How long failures count after the last one.
const FAILED_MS: u64 = 600_000;
/// Wrong passwords for one user within [`ATTACK_MS`], from sources without a success, that count as
/// an attack.
const ATTACK_FAILURES: u32 = 100;
const ATTACK_MS: u64 = 60_000;
/// Attempts for one user a second, from all sources without a success.
const USER_PER_SECOND: u32 = 200;
/// Entries of one generation of each kind.
const ENTRIES: usize = 16_384;

/// A user name in a space, as a hash: names may be long, and many do not exist.
type User = u64;
type Pair = (User, IpAddr);

/// A map of bounded size that approximately forgets the least recently used entries.
#[derive(Debug)]
struct Recent<K, V> {
    newer: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K: Eq + Hash + Copy, V: Copy + Default> Recent<K, V> {
    fn new() -> Self {
        Self { newer: HashMap::new(), older: HashMap::new() }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.newer.get(key).or_else(|| self.older.get(key)).copied()
    }

    fn entry(&mut self, key: K) -> &mut V {
        if !self.newer.contains_key(&key) {
            let value = self.older.remove(&key).unwrap_or_default();
            if self.newer.len() >= ENTRIES {
                self.older = std::mem::take(&mut self.newer);
            }
            self.newer.insert(key, value);
        }
        self.newer.entry(key).or_default()
    }

    fn remove(&mut self, key: &K) {
        self.newer.remove(key);
        self.older.remove(key);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last: Time,
}

/// The attempts for a user name from sources without a success.
#[derive(Clone, Copy, Debug, Default)]
struct UserAttempts {
    /// wrong passwords since `since`
    failures: u32,
    since: Time,
    /// attempts that began in the second after `second`
    begun: u32,
    second: Time,
}

/// Recent wrong and right passwords.
#[derive(Debug)]
pub struct Guesses {
    secret: u64,
    failures: Recent<Pair, Failures>,
    known: Recent<Pair, Option<Time>>,
    users: Recent<User, UserAttempts>,
}

/// The result of an attempt to begin a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// allowed: the source has logged in as this user within a day
    Known,
    /// allowed, from another source
    New,
    /// too early: try again later
    Early,
}

impl Guesses {
    /// Without attempts. `secret` prevents that peers construct names whose hashes collide.
    #[must_use]
    pub fn new(secret: u64) -> Self {
        Self { secret, failures: Recent::new(), known: Recent::new(), users: Recent::new() }
    }

    /// Begins an attempt for a user of a space (`None`: no such name) from a source address.
    pub fn begin(&mut self, space: Option<SpaceKey>, user: &str, source: IpAddr, now: Time) -> Attempt {
        let user = self.user(space, user);
        let failures = self.failures.get(&(user, source)).filter(|found| now < found.last.plus_millis(FAILED_MS));
        let failures = failures.unwrap_or_default();
        let wait_ms = delay_after_ms(failures.count);
        if self.is_known((user, source), now) {
            let early = now < failures.last.plus_millis(wait_ms.min(KNOWN_WAIT_MAX_MS));
            return if failures.count > 0 && early { Attempt::Early } else { Attempt::Known };
        }
        let tried = self.users.entry(user);
        let many = tried.failures >= ATTACK_FAILURES && now < tried.since.plus_millis(ATTACK_MS);
        let wait_ms = if many && failures.count > 0 { WAIT_MAX_MS } else { wait_ms };
        if failures.count > 0 && now < failures.last.plus_millis(wait_ms) {
            return Attempt::Early;
        }
        if now >= tried.second.plus_millis(1_000) {
            (tried.second, tried.begun) = (now, 0);
        }
        tried.begun += 1;
        if tried.begun > USER_PER_SECOND { Attempt::Early } else { Attempt::New }
    }

    /// The password was wrong.
    pub fn failed(&mut self, space: Option<SpaceKey>, user: &str, source: IpAddr, now: Time) {
        let user = self.user(space, user);
        let failures = self.failures.entry((user, source));
        let before = if now < failures.last.plus_millis(FAILED_MS) { failures.count } else { 0 };
        *failures = Failures { count: before.saturating_add(1), last: now };
        if !self.is_known((user, source), now) {
            let tried = self.users.entry(user);
            if now >= tried.since.plus_millis(ATTACK_MS) {
                (tried.since, tried.failures) = (now, 0);
            }
            tried.failures = tried.failures.saturating_add(1);
        }
    }

    /// The user has logged in.
    pub fn succeeded(&mut self, space: Option<SpaceKey>, user: &str, source: IpAddr, now: Time) {
        let user = self.user(space, user);
        self.failures.remove(&(user, source));
        *self.known.entry((user, source)) = Some(now);
    }

    fn is_known(&self, pair: Pair, now: Time) -> bool {
        self.known.get(&pair).flatten().is_some_and(|at| now < at.plus_millis(KNOWN_MS))
    }

    fn user(&self, space: Option<SpaceKey>, user: &str) -> User {
        let mut hasher = DefaultHasher::new();
        (self.secret, space, user).hash(&mut hasher);
        hasher.finish()
    }
}

/// The delay after `count` wrong passwords.
fn delay_after_ms(count: u32) -> u64 {
    match count.checked_sub(FREE_FAILURES) {
        Some(more) => FIRST_WAIT_MS.checked_shl(more.min(16)).unwrap_or(WAIT_MAX_MS).min(WAIT_MAX_MS),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SPACE: Option<SpaceKey> = Some(SpaceKey(1));
    const START: Time = Time::from_micros(1_000_000);

    fn source(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    fn at(ms: u64) -> Time {
        START.plus_millis(ms)
    }

    fn guess(guesses: &mut Guesses, user: &str, source: IpAddr, now: Time) -> bool {
        let begun = guesses.begin(SPACE, user, source, now) != Attempt::Early;
        if begun {
            guesses.failed(SPACE, user, source, now);
        }
        begun
    }

    #[test]
    fn repeated_wrong_passwords_delay_one_source_for_one_user_exponentially() {
        for user in ["alice", "nobody"] {
            let mut guesses = Guesses::new(7);
            let mut begun = Vec::new();
            for ms in (0..400_000).step_by(100) {
                if guess(&mut guesses, user, source(1), at(ms)) {
                    begun.push(ms);
                }
            }
            let waits: Vec<_> = begun.windows(2).map(|two| two[1] - two[0]).collect();
            assert_eq!(waits[..10], [100, 100, 100, 100, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000], "{user}");
            assert!(waits[10..].iter().all(|wait| *wait == 60_000), "{waits:?}");
            let late = at(400_000);
            assert_eq!(guesses.begin(SPACE, "bob", source(1), late), Attempt::New, "another user");
            assert_eq!(guesses.begin(SPACE, user, source(2), late), Attempt::New, "another source");
            assert_eq!(guesses.begin(None, user, source(1), late), Attempt::New, "another space");
        }
    }

    #[test]
    fn correct_password_ends_the_delay_and_makes_the_source_known_for_a_day() {
        let mut guesses = Guesses::new(7);
        (0..FREE_FAILURES).for_each(|_| assert!(guess(&mut guesses, "alice", source(1), START)));
        assert_eq!(guesses.begin(SPACE, "alice", source(1), START), Attempt::Early);
        guesses.succeeded(SPACE, "alice", source(1), at(1_000));
        assert_eq!(guesses.begin(SPACE, "alice", source(1), at(1_000)), Attempt::Known);
        assert_eq!(guesses.begin(SPACE, "alice", source(1), at(1_000 + KNOWN_MS)), Attempt::New);
    }

    #[test]
    fn a_known_source_never_waits_for_more_than_two_seconds() {
        let mut guesses = Guesses::new(7);
        guesses.succeeded(SPACE, "alice", source(1), START);
        let mut begun = START;
        for ms in (0..120_000).step_by(50) {
            if guess(&mut guesses, "alice", source(1), at(ms)) {
                assert!(at(ms).micros_since(begun) <= 2_050_000, "{ms}");
                begun = at(ms);
            }
        }
    }

    /// 1,000 sources guess without a pause, before and during the login; returns its delay in ms.
    fn under_attack(user_source: IpAddr, known: bool, begins_ms: u64) -> u64 {
        let mut guesses = Guesses::new(7);
        if known {
            guesses.succeeded(SPACE, "alice", user_source, START);
        }
        for ms in (0..120_000).step_by(20) {
            for guesser in 1..=1_000 {
                guess(&mut guesses, "alice", source(guesser), at(ms));
            }
            if ms >= begins_ms && guesses.begin(SPACE, "alice", user_source, at(ms)) != Attempt::Early {
                return ms - begins_ms;
            }
        }
        panic!("the user never logged in");
    }

    #[test]
    fn user_logs_in_during_guessing_from_a_thousand_sources() {
        for begins_ms in [0, 500, 5_000, 60_000] {
            assert_eq!(under_attack(source(5_000), true, begins_ms), 0, "from a known source");
            let waited = under_attack(source(5_000), false, begins_ms);
            assert!(waited <= 10_000, "from a new one: {waited} ms from {begins_ms}");
        }
    }

    #[test]
    fn guess_records_are_bounded_and_failures_do_not_evict_successes() {
        let mut guesses = Guesses::new(7);
        guesses.succeeded(SPACE, "alice", source(1), START);
        for number in 0..5 * ENTRIES as u32 {
            guess(&mut guesses, &format!("nobody-{number}"), source(number), START);
        }
        assert_eq!(guesses.begin(SPACE, "alice", source(1), START), Attempt::Known);
        for count in [guesses.failures.newer.len(), guesses.failures.older.len()] {
            assert!(count <= ENTRIES);
        }
        assert!(guesses.users.newer.len() + guesses.users.older.len() <= 2 * ENTRIES);
    }
}
