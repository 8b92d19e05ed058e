import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueConnection;
import jakarta.jms.QueueRequestor;
import jakarta.jms.QueueSession;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jms.annotation.EnableJms;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.jms.config.DefaultJmsListenerContainerFactory;

/** The scenarios on temporary destinations and transacted sessions; the contract is in the README of the interop folder. */
final class Temporary {
    static final Map<String, Client.Scenario> SCENARIOS = Map.of(
            "temporary", Temporary::temporary,
            "requestor", Temporary::requestor,
            "transacted_reply", Temporary::transactedReply,
            "refused_commit", Temporary::refusedCommit,
            "spring", Temporary::spring);

    private static final long SHORT_MS = 500;

    private Temporary() {
    }

    /** One thread sends, and receives afterwards. */
    private static Map<String, Object> temporary(Session session, Client.Options options) throws JMSException {
        TemporaryQueue queue = session.createTemporaryQueue();
        TemporaryTopic topic = session.createTemporaryTopic();
        List<String> received = new ArrayList<>();
        int count = options.number("count");
        MessageProducer named = session.createProducer(queue);
        for (int number = 0; number < count; number++) {
            named.send(session.createTextMessage("message " + number));
        }
        MessageProducer anonymous = session.createProducer(null);
        for (int number = 0; number < count; number++) {
            anonymous.send(queue, session.createTextMessage("message " + number));
        }
        anonymous.send(topic, session.createTextMessage("no subscriber"));
        try (MessageConsumer consumer = session.createConsumer(queue)) {
            for (int number = 0; number < 2 * count; number++) {
                received.add(Client.next(consumer).getBody(String.class));
            }
        }
        try (MessageConsumer consumer = session.createConsumer(topic)) {
            session.createProducer(topic).send(session.createTextMessage("somebody listens"));
            received.add(Client.next(consumer).getBody(String.class));
        }
        queue.delete();
        topic.delete();
        return Map.of("received", received);
    }

    /** QueueRequestor makes a temporary queue and sends before anything else. */
    private static Map<String, Object> requestor(Session session, Client.Options options) throws Exception {
        Session serving = Stored.session(session, Session.AUTO_ACKNOWLEDGE);
        MessageProducer answers = serving.createProducer(null);
        serving.createConsumer(serving.createQueue(options.address())).setMessageListener(message -> {
            try {
                answers.send(message.getJMSReplyTo(), serving.createTextMessage(upper(message)));
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        List<String> replies = new ArrayList<>();
        try (QueueConnection connection = Client.factory("requestor", options).createQueueConnection()) {
            connection.start();
            QueueSession asking = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            QueueRequestor requestor = new QueueRequestor(asking, asking.createQueue(options.address()));
            for (int number = 0; number < options.number("count"); number++) {
                replies.add(requestor.request(asking.createTextMessage("ping " + number)).getBody(String.class));
            }
            requestor.close();
        }
        return Map.of("replies", replies);
    }

    /** A reply that is rolled back is never seen; the one that is committed comes with the request gone. */
    private static Map<String, Object> transactedReply(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        TemporaryQueue replies = session.createTemporaryQueue();
        TextMessage question = session.createTextMessage("ping");
        question.setJMSReplyTo(replies);
        session.createProducer(queue).send(question);
        Session serving = Stored.session(session, Session.SESSION_TRANSACTED);
        MessageConsumer requests = serving.createConsumer(queue);
        MessageProducer answers = serving.createProducer(null);
        MessageConsumer answered = session.createConsumer(replies);
        List<Object> seen = new ArrayList<>();
        for (boolean commits : new boolean[] {false, true}) {
            Message request = Client.next(requests);
            answers.send(request.getJMSReplyTo(), serving.createTextMessage(upper(request)));
            seen.add(answered.receive(SHORT_MS) == null);
            if (commits) {
                serving.commit();
            } else {
                serving.rollback();
                seen.add(answered.receive(SHORT_MS) == null);
            }
        }
        String reply = Client.next(answered).getBody(String.class);
        boolean gone = requests.receive(SHORT_MS) == null;
        return Map.of("unseen", seen, "reply", reply, "gone", gone);
    }

    /** What a transacted session sends beside one message that is refused: why the commit fails, by name. */
    private static Map<String, Object> refusedCommit(Session session, Client.Options options) throws JMSException {
        Queue queue = session.createQueue(options.address());
        Session sending = Stored.session(session, Session.SESSION_TRANSACTED);
        Map<String, Object> causes = new LinkedHashMap<>();
        for (String name : options.text("names").split(",")) {
            MessageProducer producer = sending.createProducer(null);
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            try {
                producer.send(queue, sending.createTextMessage("never"));
                producer.send(sending.createQueue(name), sending.createTextMessage("x".repeat(options.number("size"))));
                sending.commit();
                causes.put(name, "committed");
            } catch (JMSException error) {
                causes.put(name, error.getClass().getSimpleName() + ": " + error.getMessage());
                sending.rollback();
            }
            producer.close();
        }
        try (MessageConsumer consumer = session.createConsumer(queue)) {
            causes.put("stored", consumer.receive(SHORT_MS) != null);
        }
        return causes;
    }

    private static String upper(Message message) throws JMSException {
        return message.getBody(String.class).toUpperCase();
    }

    /** A transacted listener of Spring, which sends what it returns to the reply address. */
    @Configuration(proxyBeanMethods = false)
    @EnableJms
    static class Listening {
        @Bean
        DefaultJmsListenerContainerFactory jmsListenerContainerFactory(ConnectionFactory connections) {
            DefaultJmsListenerContainerFactory factory = new DefaultJmsListenerContainerFactory();
            factory.setConnectionFactory(connections);
            factory.setSessionTransacted(true);
            return factory;
        }

        @JmsListener(destination = "${address}")
        String answer(String question) {
            return question.toUpperCase();
        }
    }

    private static Map<String, Object> spring(Session session, Client.Options options) throws Exception {
        Queue queue = session.createQueue(options.address());
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageProducer producer = session.createProducer(queue);
        List<String> texts = new ArrayList<>();
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext()) {
            context.getEnvironment().getSystemProperties().put("address", options.address());
            JmsConnectionFactory factory = Client.factory("spring", options);
            context.registerBean(ConnectionFactory.class, () -> factory);
            context.register(Listening.class);
            context.refresh();
            for (int number = 0; number < options.number("count"); number++) {
                TextMessage question = session.createTextMessage("ping " + number);
                question.setJMSReplyTo(replies);
                producer.send(question);
            }
            try (MessageConsumer answered = session.createConsumer(replies)) {
                for (int number = 0; number < options.number("count"); number++) {
                    texts.add(Client.next(answered).getBody(String.class));
                }
            }
        }
        try (MessageConsumer left = session.createConsumer(queue)) {
            return Map.of("replies", texts, "gone", left.receive(SHORT_MS) == null);
        }
    }
}
