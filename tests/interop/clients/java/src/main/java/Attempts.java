import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageListener;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.jms.listener.DefaultMessageListenerContainer;

/** What counts as an attempt to deliver a message; the contract is in the README of the interop folder. */
final class Attempts {
    static final Map<String, Client.Scenario> SCENARIOS = Map.of(
            "prefetch", Attempts::prefetch,
            "poison", Attempts::poison);

    private Attempts() {
    }

    /** Prefetches messages, takes one and closes, several times; the delivery count of each message that is left. */
    private static Map<String, Object> prefetch(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        int count = options.number("count");
        Stored.send(session, queue, count, (message, number) -> { });
        for (int time = 0; time < options.number("times"); time++) {
            prefetchOnce(options, queue);
        }
        int left = count - options.number("times");
        MessageConsumer consumer = session.createConsumer(queue);
        List<Integer> counts = new ArrayList<>();
        for (int number = 0; number < left; number++) {
            counts.add(Client.next(consumer).getIntProperty("JMSXDeliveryCount") - 1);
        }
        consumer.close();
        return Map.of("counts", counts);
    }

    private static void prefetchOnce(Client.Options options, Queue queue) throws JMSException {
        String how = options.text("how");
        try (Connection connection = Client.factory("queue", options).createConnection()) {
            // Of a message that the application has and does not acknowledge Qpid JMS says itself that it failed.
            Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(queue);
            connection.start();
            Client.next(consumer);
            if (how.equals("consumer")) {
                consumer.close();
            } else if (how.equals("session")) {
                session.close();
            }
        }
    }

    /** A listener of Spring fails at every message: how often it is called before the message is a dead letter. */
    private static Map<String, Object> poison(Session session, Client.Options options) throws JMSException {
        Stored.send(session, session.createQueue(options.address()), 1, (message, number) -> { });
        AtomicInteger calls = new AtomicInteger();
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(Client.factory("queue", options));
        container.setDestinationName(options.address());
        container.setConcurrentConsumers(options.number("consumers"));
        container.setSessionTransacted(true);
        container.setMessageListener((MessageListener) message -> {
            calls.incrementAndGet();
            throw new IllegalStateException("poison");
        });
        container.afterPropertiesSet();
        container.start();
        try {
            Message dead = Client.next(session.createConsumer(session.createQueue(options.text("dead"))));
            return Map.of("calls", calls.get(), "dead", dead.getBody(String.class));
        } finally {
            container.shutdown();
        }
    }
}
