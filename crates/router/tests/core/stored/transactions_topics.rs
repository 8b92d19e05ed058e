//! Transactions on topics: postings reach the subscriptions with the commit, and their deliveries
//! are retired.

use std::sync::Arc;

use enmasse_amqp::types::{Body, Header, Message, Outcome};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::queue::{Full, Limits, Settings};
use enmasse_router::core::{Answer, AttachmentId};

use super::subscriptions::durable;
use super::transactions::{house, reason};
use super::{DECLARED, House, PRODUCER, PUBLISHER, QUEUE, news, publisher};

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

#[test]
fn posting_to_a_topic_reaches_its_subscriptions_at_the_commit() {
    let mut house = house(Settings::default());
    let live = house.subscriber(None, 10);
    let kept = house.subscriber(Some(durable("kept")), 10);
    let sports = house.subscriber(Some(durable("sports@news/sports")), 10);
    let urgent = house.subscriber(Some(durable("urgent?JMSPriority > 4")), 10);
    let below = AttachmentId { shard: 0, generation: 0, index: 70 };
    house.router.attach(below, news(), publisher("news/sports"), &mut house.recorded);
    let id = house.declare(1);
    house.post(id, PUBLISHER, "a");
    house.post(id, below, "b");
    let header = Some(Header { priority: 9, ..Header::default() });
    house.post_message(id, PUBLISHER, &Message { header, body: Body::Data(vec![b"c".to_vec()]), ..Message::default() });
    house.post(id, PRODUCER, "q");
    house.pump();
    assert!(house.got().is_empty() && house.recorded.provisional.len() == 4);
    house.router.discharge(id, false, 1, &mut house.recorded);
    let batch = house.router.take_journal().expect("something to write");
    assert_eq!(batch.messages(), 4, "each once for all subscriptions");
    assert!(house.got().is_empty(), "volatile subscriptions wait for the disk too");
    let mut batch = batch;
    let result = house.log.append(&mut batch).and_then(|()| house.log.sync());
    house.router.journaled(Answer { batch, result }, &mut house.recorded);
    house.pump();
    assert_eq!(house.result(id), Ok(()));
    assert_eq!([house.texts_of(live), house.texts_of(kept)].map(sorted), [["a", "b", "c"], ["a", "b", "c"]]);
    assert_eq!((house.texts_of(sports), house.texts_of(urgent)), (vec!["b".to_owned()], vec!["c".to_owned()]));
    let mut house = house.restarted();
    assert_eq!(
        (house.seen(DECLARED), house.seen(QUEUE)),
        (["c", "a", "b"].map(str::to_owned).to_vec(), vec!["q".into()])
    );
}

#[test]
fn subscription_that_refuses_a_posting_fails_the_transaction() {
    let limits = Limits { messages: 1, ..Limits::default() };
    let topic = Settings { limits, full: Full::Reject, ..Settings::default() };
    let mut house = House::with_topic(Arc::new(SimulatedDisk::new(512, 7)), Settings::default(), topic);
    let live = house.subscriber(None, 10);
    let id = house.declare(1);
    for (attachment, text) in [(PRODUCER, "q"), (PUBLISHER, "a"), (PUBLISHER, "b")] {
        house.post(id, attachment, text);
    }
    reason(house.commit(id), "holds 1 messages");
    assert!(house.texts_of(live).is_empty() && house.seen(QUEUE).is_empty() && house.seen(DECLARED).is_empty());
    let id = house.declare(2);
    house.post(id, PUBLISHER, "a");
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!(house.texts_of(live), ["a"]);
}

#[test]
fn deliveries_of_subscriptions_are_retired_like_any_other() {
    for commit in [true, false] {
        let mut house = house(Settings::default());
        let attachments = [house.subscriber(None, 1), house.subscriber(Some(durable("kept")), 1)];
        house.publish("a");
        house.pump();
        let id = house.declare(1);
        house.got().iter().for_each(|got| house.retire(id, got, &Outcome::Accepted, true));
        house.post(id, PRODUCER, "answer");
        if commit {
            assert_eq!(house.commit(id), Ok(()));
        } else {
            house.roll_back(id);
        }
        attachments.iter().for_each(|attachment| house.router.credit(*attachment, 5, false, &mut house.recorded));
        house.pump();
        let again = if commit { vec![] } else { vec!["a".to_owned()] };
        assert_eq!([house.texts_of(attachments[0]), house.texts_of(attachments[1])], [again.clone(), again]);
        assert_eq!(house.seen(QUEUE).len(), usize::from(commit));
    }
}

#[test]
fn posting_to_a_topic_without_subscriptions_commits_and_is_dropped() {
    let mut house = house(Settings::default());
    house.router.move_subscription(DECLARED, None, &mut house.recorded);
    let live = house.subscriber(None, 10);
    let id = house.declare(1);
    house.post(id, PUBLISHER, "a");
    house.router.detach(live, &mut house.recorded);
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!((house.dropped(), house.router.in_progress()), (1, 0));
}
