import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsSession;

/** The scenarios on queues with Qpid JMS; the contract is in the README of the interop folder. */
final class Stored {
    static final Map<String, Client.Scenario> SCENARIOS = Map.of(
            "queue", Stored::queue,
            "judge", Stored::judge,
            "browse", Stored::browse,
            "select", Stored::select,
            "priorities", Stored::priorities,
            "groups", Stored::groups,
            "failing", Stored::failing,
            "expiry", Stored::expiry,
            "delay", Stored::delay);

    private static final String NUMBER = "number";
    private static final int GROUPS = 4;

    private Stored() {
    }

    interface Making {
        void change(Message message, int number) throws JMSException;
    }

    static Session session(Session session, int mode) throws JMSException {
        Connection connection = ((JmsSession) session).getConnection();
        return connection.createSession(mode);
    }

    /** Sends numbered messages, each accepted before the next. */
    static void send(Session session, Queue queue, int count, Making making) throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < count; number++) {
            Message message = session.createTextMessage("message " + number);
            message.setIntProperty(NUMBER, number);
            making.change(message, number);
            producer.send(message, message.getJMSDeliveryMode(), message.getJMSPriority(), 0);
        }
        producer.close();
    }

    /** The numbers of the next messages of a consumer, which is closed then. */
    private static List<Integer> numbers(MessageConsumer consumer, int count) throws JMSException {
        List<Integer> numbers = new ArrayList<>();
        while (numbers.size() < count) {
            numbers.add(Client.next(consumer).getIntProperty(NUMBER));
        }
        consumer.close();
        return numbers;
    }

    private static Map<String, Object> queue(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        send(session, queue, options.number("count"), (message, number) -> { });
        return Map.of("received", numbers(session.createConsumer(queue), options.number("count")));
    }

    private static Map<String, Object> judge(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        send(session, queue, 1, (message, number) -> { });
        int[] outcomes = {Client.RELEASED, Client.MODIFIED_FAILED, Client.ACCEPTED};
        return Map.of("counts", counts(session, queue, outcomes));
    }

    /** Gives one message these outcomes in turn; its delivery count each time, which JMS tells one higher. */
    private static List<Integer> counts(Session session, Queue queue, int... outcomes) throws JMSException {
        Session judging = session(session, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = judging.createConsumer(queue);
        List<Integer> counts = new ArrayList<>();
        for (int outcome : outcomes) {
            Message message = Client.next(consumer);
            counts.add(message.getIntProperty("JMSXDeliveryCount") - 1);
            message.setIntProperty(Client.ACK_TYPE, outcome);
            message.acknowledge();
        }
        judging.close();
        return counts;
    }

    private static Map<String, Object> browse(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        int count = options.number("count");
        send(session, queue, count, (message, number) -> { });
        List<Integer> browsed = new ArrayList<>();
        try (QueueBrowser browser = session.createBrowser(queue)) {
            for (Object seen : Collections.list(browser.getEnumeration())) {
                browsed.add(((Message) seen).getIntProperty(NUMBER));
            }
        }
        return Map.of("browsed", browsed, "received", numbers(session.createConsumer(queue), count));
    }

    private static Map<String, Object> select(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        int count = options.number("count");
        send(session, queue, count,
                (message, number) -> message.setStringProperty("colour", number % 2 == 0 ? "red" : "blue"));
        int matching = options.number("matching");
        List<Integer> selected = numbers(session.createConsumer(queue, options.text("selector")), matching);
        return Map.of("selected", selected, "rest", numbers(session.createConsumer(queue), count - matching));
    }

    private static Map<String, Object> priorities(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        send(session, queue, 10, (message, number) -> message.setJMSPriority(number));
        return Map.of("received", numbers(session.createConsumer(queue), 10));
    }

    private static Map<String, Object> groups(Session session, Client.Options options) throws Exception {
        Queue queue = session.createQueue(options.address());
        int count = options.number("count");
        Map<String, ConcurrentLinkedQueue<String>> heard = new ConcurrentHashMap<>();
        CountDownLatch all = new CountDownLatch(count);
        for (String listener : List.of("one", "two")) {
            session(session, Session.AUTO_ACKNOWLEDGE).createConsumer(queue).setMessageListener(message -> {
                try {
                    heard.computeIfAbsent(message.getStringProperty("JMSXGroupID"), group -> new ConcurrentLinkedQueue<>())
                            .add(listener + " " + message.getIntProperty(NUMBER));
                    all.countDown();
                } catch (JMSException error) {
                    throw new IllegalStateException(error);
                }
            });
        }
        send(session, queue, count,
                (message, number) -> message.setStringProperty("JMSXGroupID", "group-" + number % GROUPS));
        if (!all.await(Client.TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException(all.getCount() + " messages are missing");
        }
        boolean together = true;
        boolean inOrder = true;
        for (ConcurrentLinkedQueue<String> group : heard.values()) {
            int last = -1;
            for (String line : group) {
                String[] words = line.split(" ");
                together &= line.startsWith(group.peek().split(" ")[0]);
                inOrder &= Integer.parseInt(words[1]) > last;
                last = Integer.parseInt(words[1]);
            }
        }
        long listeners = heard.values().stream().map(group -> group.peek().split(" ")[0]).distinct().count();
        return Map.of("groups", heard.size(), "together", together, "in_order", inOrder, "listeners", listeners);
    }

    private static Map<String, Object> failing(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        send(session, queue, 1, (message, number) -> { });
        int[] outcomes = new int[options.number("attempts")];
        Arrays.fill(outcomes, Client.MODIFIED_FAILED);
        List<Integer> counts = counts(session, queue, outcomes);
        MessageConsumer dead = session.createConsumer(session.createQueue(options.text("dead")));
        return Map.of("counts", counts, "dead", Client.next(dead).getBody(String.class));
    }

    private static Map<String, Object> expiry(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        MessageProducer producer = session.createProducer(queue);
        producer.setTimeToLive(500);
        producer.send(session.createTextMessage("short"));
        MessageConsumer dead = session.createConsumer(session.createQueue(options.text("dead")));
        String expired = Client.next(dead).getBody(String.class);
        boolean empty = session.createConsumer(queue).receiveNoWait() == null;
        return Map.of("expired", expired, "empty", empty);
    }

    private static Map<String, Object> delay(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        MessageProducer producer = session.createProducer(queue);
        long began = System.nanoTime();
        producer.setDeliveryDelay(options.number("delay_ms"));
        producer.send(session.createTextMessage("later"));
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("now"));
        MessageConsumer consumer = session.createConsumer(queue);
        List<String> order = new ArrayList<>();
        order.add(Client.next(consumer).getBody(String.class));
        order.add(Client.next(consumer).getBody(String.class));
        long tookMs = (System.nanoTime() - began) / 1_000_000;
        return Map.of("order", order, "late", tookMs >= options.number("delay_ms"));
    }
}
