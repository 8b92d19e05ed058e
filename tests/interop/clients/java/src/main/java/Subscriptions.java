import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Every kind of subscription that JMS 2.0 has. What each receives are the numbers of messages. */
final class Subscriptions {
    private static final long TIMEOUT_MS = 60_000;
    private static final long QUIET_MS = 300;

    private final String url;
    private final String address;

    private Subscriptions(String url, String address) {
        this.url = url;
        this.address = address;
    }

    static Map<String, Object> run(String url, String address) throws JMSException {
        Subscriptions here = new Subscriptions(url, address);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("own", here.own());
        answer.put("durable", here.durable());
        answer.put("anew", here.anew());
        answer.put("no_local", List.of(here.noLocal(null), here.noLocal("own")));
        answer.put("in_use", here.inUse());
        answer.put("shared", here.shared("client"));
        answer.put("shared_global", here.shared(null));
        answer.put("shared_volatile", here.sharedVolatile());
        answer.put("delayed_ms", here.delayed());
        return answer;
    }

    private Connection connect(String client) throws JMSException {
        Connection connection = new JmsConnectionFactory(url).createConnection();
        if (client != null) {
            connection.setClientID(client);
        }
        connection.start();
        return connection;
    }

    private static Session session(Connection connection) throws JMSException {
        return connection.createSession(Session.AUTO_ACKNOWLEDGE);
    }

    private void publish(int first, int count) throws JMSException {
        try (Connection connection = connect(null)) {
            Session session = session(connection);
            MessageProducer producer = session.createProducer(session.createTopic(address));
            for (int number = first; number < first + count; number++) {
                Message message = session.createMessage();
                message.setIntProperty("number", number);
                producer.send(message);
            }
        }
    }

    /** The numbers of `count` messages, and of any that follow at once. */
    private static List<Integer> take(MessageConsumer consumer, int count) throws JMSException {
        List<Integer> numbers = new ArrayList<>();
        Message message;
        while ((message = consumer.receive(numbers.size() < count ? TIMEOUT_MS : QUIET_MS)) != null) {
            numbers.add(message.getIntProperty("number"));
        }
        return numbers;
    }

    private List<Integer> own() throws JMSException {
        try (Connection connection = connect(null)) {
            Session session = session(connection);
            MessageConsumer consumer = session.createConsumer(session.createTopic(address), "number > 0");
            publish(0, 3);
            return take(consumer, 2);
        }
    }

    private List<List<Integer>> durable() throws JMSException {
        List<List<Integer>> taken = new ArrayList<>();
        try (Connection connection = connect("durable")) {
            Session session = session(connection);
            Topic topic = session.createTopic(address);
            MessageConsumer consumer = session.createDurableConsumer(topic, "sub");
            publish(0, 3);
            taken.add(take(consumer, 3));
            consumer.close();
            publish(3, 9);
        }
        try (Connection connection = connect("durable")) {
            Session session = session(connection);
            Topic topic = session.createTopic(address);
            MessageConsumer consumer = session.createDurableConsumer(topic, "sub");
            taken.add(take(consumer, 9));
            consumer.close();
            publish(12, 1);
            session.unsubscribe("sub");
            consumer = session.createDurableConsumer(topic, "sub");
            taken.add(take(consumer, 0));
            consumer.close();
            session.unsubscribe("sub");
        }
        return taken;
    }

    private List<Integer> anew() throws JMSException {
        try (Connection connection = connect("anew")) {
            Session session = session(connection);
            Topic topic = session.createTopic(address);
            session.createDurableConsumer(topic, "sub").close();
            publish(0, 3);
            MessageConsumer consumer = session.createDurableConsumer(topic, "sub", "number = 4", false);
            publish(3, 3);
            List<Integer> taken = take(consumer, 1);
            consumer.close();
            session.unsubscribe("sub");
            return taken;
        }
    }

    /** Not what is sent over its own connection; durable for a client that has an id. */
    private List<Integer> noLocal(String client) throws JMSException {
        try (Connection connection = connect(client)) {
            Session session = session(connection);
            Topic topic = session.createTopic(address);
            MessageConsumer consumer = client == null
                    ? session.createConsumer(topic, null, true)
                    : session.createDurableConsumer(topic, "no-local", null, true);
            Message message = session.createMessage();
            message.setIntProperty("number", 1);
            session.createProducer(topic).send(message);
            publish(2, 1);
            List<Integer> taken = take(consumer, 1);
            consumer.close();
            if (client != null) {
                session.unsubscribe("no-local");
            }
            return taken;
        }
    }

    private List<String> inUse() throws JMSException {
        try (Connection first = connect("in-use"); Connection second = connect("in-use")) {
            Session holding = session(first);
            MessageConsumer consumer = holding.createDurableConsumer(holding.createTopic(address), "sub");
            Session other = session(second);
            List<String> reasons = new ArrayList<>();
            reasons.add(reason(() -> other.unsubscribe("sub")));
            MessageConsumer newer = other.createDurableConsumer(other.createTopic(address), "sub");
            reasons.add(reason(() -> {
                // It waits until the link is taken over, and then says that it is closed.
                consumer.receive(TIMEOUT_MS);
                consumer.receive(TIMEOUT_MS);
            }));
            newer.close();
            other.unsubscribe("sub");
            reasons.add(reason(() -> other.unsubscribe("sub")));
            return reasons;
        }
    }

    private interface Attempt {
        void run() throws JMSException;
    }

    private static String reason(Attempt attempt) {
        try {
            attempt.run();
            return null;
        } catch (JMSException error) {
            return error.getMessage();
        }
    }

    private interface Opening {
        MessageConsumer open(Session session) throws JMSException;
    }

    /** Two consumers of one subscription: how many each has of twenty, and how many both. */
    private List<Integer> both(Function<Integer, Connection> connections, Opening opening) throws JMSException {
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            consumers.add(opening.open(session(connections.apply(number))));
        }
        publish(0, 20);
        List<Integer> all = new ArrayList<>();
        List<Integer> counts = new ArrayList<>();
        for (MessageConsumer consumer : consumers) {
            List<Integer> taken = take(consumer, 10);
            counts.add(taken.size());
            all.addAll(taken);
            consumer.close();
        }
        counts.add((int) all.stream().distinct().count());
        return counts;
    }

    private List<Integer> shared(String client) throws JMSException {
        try (Connection first = connect(client); Connection second = client == null ? connect(null) : null) {
            Opening opening = session -> session.createSharedDurableConsumer(session.createTopic(address), "together");
            List<Integer> counts = both(number -> number == 0 || second == null ? first : second, opening);
            session(first).unsubscribe("together");
            return counts;
        }
    }

    private List<Integer> sharedVolatile() throws JMSException {
        try (Connection first = connect(null); Connection second = connect(null)) {
            Opening opening = session -> session.createSharedConsumer(session.createTopic(address), "together");
            return both(number -> number == 0 ? first : second, opening);
        }
    }

    private long delayed() throws JMSException {
        try (Connection connection = connect(null)) {
            Session session = session(connection);
            Topic topic = session.createTopic(address);
            MessageConsumer consumer = session.createConsumer(topic);
            MessageProducer producer = session.createProducer(topic);
            producer.setDeliveryDelay(500);
            long before = System.currentTimeMillis();
            producer.send(session.createMessage());
            consumer.receive(TIMEOUT_MS);
            return System.currentTimeMillis() - before;
        }
    }
}
