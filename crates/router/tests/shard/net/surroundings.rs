//! What surrounds the shards: the log, and the answers to their requests.

use super::*;

impl Net {
    /// The log writes the batches of a shard and performs its reads.
    pub(super) fn journal(&mut self, shard: usize) -> bool {
        let Some(log) = self.log.as_mut() else { return false };
        let mut moved = false;
        while let Some(batch) = self.shards[shard].take_journal() {
            self.commits.push(Lane { worker: shard as u16, part: batch.part() }, batch);
        }
        while !self.commits.is_empty() {
            let mut done = Vec::new();
            self.commits.step(log, &mut done);
            for Committed { lane, batch, result } in done {
                self.shards[usize::from(lane.worker)].journaled(vec![Answer { batch, result }]);
                moved = true;
            }
        }
        let reader = log.reader();
        let read = self.shards[shard].take_wanted().into_iter().map(|place| {
            let mut buffer = Vec::new();
            (place, Read::from(reader.read(place, &mut buffer)))
        });
        let read: Vec<_> = read.collect();
        moved |= !read.is_empty();
        self.shards[shard].fetched(read);
        moved
    }

    pub(super) fn requests(&mut self, shard: usize) -> bool {
        let mut moved = false;
        while let Some(request) = self.shards[shard].poll_request() {
            moved = true;
            match request {
                Request::Fact { fact, .. } => self.facts.push(fact),
                Request::CheckPlain { conn, check, .. } => {
                    let right = check.verify();
                    self.shards[shard].plain_checked(conn, Some(right));
                }
                Request::Ask { conn, subject, question } => {
                    self.requested.push((subject, question));
                    let judged = self.judge.clone();
                    self.shards[shard].judged(conn, subject, judged);
                }
                Request::Create { conn, number, wanted, user, .. } => {
                    self.wanted.push((shard, conn, number, wanted, user));
                }
                Request::Move { conn, to } => {
                    let Some(connection) = self.shards[shard].extract(conn) else { continue };
                    let id = self.shards[to as usize].adopt(connection);
                    let client = self.clients.iter_mut().find(|client| client.server == (shard, conn));
                    client.expect("the connection has a client").server = (to as usize, id);
                }
            }
        }
        moved
    }
}
