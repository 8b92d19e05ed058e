import com.google.gson.Gson;
import com.google.gson.JsonObject;
import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * The interoperability scenarios with Qpid JMS; the contract is in the README of the interop folder.
 *
 * <p>JMS hides much of AMQP: a consumer picks an outcome through the property JMS_AMQP_ACK_TYPE, and a producer
 * sees anything but accepted as an exception.
 */
public final class Client {
    static final long TIMEOUT_MS = 60_000;
    static final String ACK_TYPE = "JMS_AMQP_ACK_TYPE";
    static final int ACCEPTED = 1;
    static final int REJECTED = 2;
    static final int RELEASED = 3;
    static final int MODIFIED_FAILED = 4;
    static final int MODIFIED_FAILED_UNDELIVERABLE = 5;

    interface Scenario {
        Map<String, Object> run(Session session, Options options) throws Exception;
    }

    private interface Attach {
        void run() throws JMSException;
    }

    record Options(JsonObject json) {
        String text(String name) {
            return json.has(name) && !json.get(name).isJsonNull() ? json.get(name).getAsString() : null;
        }

        int number(String name) {
            return json.get(name).getAsInt();
        }

        boolean flag(String name) {
            return json.has(name) && json.get(name).getAsBoolean();
        }

        String address() {
            return text("address");
        }
    }

    private static final Map<String, Scenario> DIRECT = Map.of(
            "exchange", Client::exchange,
            "outcomes", Client::outcomes,
            "drain", Client::drain,
            "request", Client::request,
            "refused", Client::refused,
            "multicast", Client::multicast,
            "anonymous", Client::anonymous);

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(new Gson().fromJson(arguments[1], JsonObject.class));
        System.out.println(new Gson().toJson(run(arguments[0], options)));
    }

    private static Map<String, Object> run(String scenario, Options options) throws Exception {
        if (scenario.equals("subscriptions")) {
            return Subscriptions.run(url(scenario, options), options.address());
        }
        Connection connection;
        try {
            connection = new JmsConnectionFactory(url(scenario, options)).createConnection(
                    options.text("user"), options.text("password"));
            connection.start();
        } catch (JMSException error) {
            return Map.of("refused", String.valueOf(error.getMessage()));
        }
        try (connection) {
            boolean judges = scenario.equals("outcomes");
            Session session = connection.createSession(judges ? Session.CLIENT_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE);
            Map<String, Scenario> scenarios = new LinkedHashMap<>(DIRECT);
            scenarios.putAll(Stored.SCENARIOS);
            scenarios.putAll(Temporary.SCENARIOS);
            scenarios.putAll(Attempts.SCENARIOS);
            return scenarios.get(scenario).run(session, options);
        }
    }

    /** Connections for a scenario that makes its own. */
    static JmsConnectionFactory factory(String scenario, Options options) {
        return new JmsConnectionFactory(url(scenario, options));
    }

    private static String url(String scenario, Options options) {
        Map<String, String> query = new LinkedHashMap<>();
        String mechanism = options.text("mechanism") == null ? "ANONYMOUS" : options.text("mechanism");
        query.put(mechanism.equals("NONE") ? "amqp.saslLayer" : "amqp.saslMechanisms",
                mechanism.equals("NONE") ? "false" : mechanism);
        query.put("amqp.idleTimeout", "60000");
        if (options.text("virtual_host") != null) {
            query.put("amqp.vhost", options.text("virtual_host"));
        }
        if (options.text("client_id") != null) {
            query.put("jms.clientID", options.text("client_id"));
        }
        if (options.flag("tls")) {
            query.put("transport.trustStoreLocation", options.text("truststore"));
            query.put("transport.trustStorePassword", options.text("store_password"));
            query.put("transport.trustStoreType", "PKCS12");
            if (options.text("keystore") != null) {
                query.put("transport.keyStoreLocation", options.text("keystore"));
                query.put("transport.keyStorePassword", options.text("store_password"));
                query.put("transport.keyStoreType", "PKCS12");
            }
        }
        if (options.flag("settled")) {
            query.put("jms.presettlePolicy.presettleAll", "true");
        }
        if (scenario.equals("drain")) {
            query.put("jms.prefetchPolicy.all", "0"); // each receive gives credit and drains what is left of it
        }
        StringBuilder url = new StringBuilder(options.flag("websocket") ? "amqpws" : "amqp");
        url.append(options.flag("tls") ? "s://" : "://");
        url.append(options.text("host")).append(':').append(options.number("port"));
        String separator = "?";
        for (Map.Entry<String, String> item : query.entrySet()) {
            url.append(separator).append(item.getKey()).append('=')
                    .append(URLEncoder.encode(item.getValue(), StandardCharsets.UTF_8));
            separator = "&";
        }
        return url.toString();
    }

    private static byte[] body(int number, int size) {
        byte[] bytes = new byte[size];
        Arrays.fill(bytes, (byte) number);
        return bytes;
    }

    static Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(TIMEOUT_MS);
        if (message == null) {
            throw new IllegalStateException("no message within " + TIMEOUT_MS + " ms");
        }
        return message;
    }

    /** Sends on a session of its own thread of control and collects how each send ended, in order. */
    private static CompletableFuture<List<String>> sendAll(MessageProducer producer, List<Message> messages) {
        return CompletableFuture.supplyAsync(() -> {
            List<String> endings = new ArrayList<>();
            for (Message message : messages) {
                try {
                    producer.send(message);
                    endings.add("accepted");
                } catch (JMSException error) {
                    endings.add(String.valueOf(error.getMessage()));
                }
            }
            return endings;
        });
    }

    /** A second session of the same connection: JMS sessions are single threaded. */
    static Session second(Session session) throws JMSException {
        return ((org.apache.qpid.jms.JmsSession) session).getConnection().createSession(Session.AUTO_ACKNOWLEDGE);
    }

    private static Map<String, Object> exchange(Session session, Options options) throws Exception {
        int count = options.number("count");
        int size = options.number("size");
        Queue queue = session.createQueue(options.address());
        MessageConsumer consumer = session.createConsumer(queue);
        Session sending = second(session);
        List<Message> messages = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            BytesMessage message = sending.createBytesMessage();
            message.setIntProperty("number", number);
            message.writeBytes(body(number, size));
            messages.add(message);
        }
        CompletableFuture<List<String>> endings = sendAll(sending.createProducer(queue), messages);
        boolean inOrder = true;
        boolean intact = true;
        for (int number = 0; number < count; number++) {
            BytesMessage message = (BytesMessage) next(consumer);
            byte[] bytes = new byte[(int) message.getBodyLength()];
            message.readBytes(bytes);
            inOrder &= message.getIntProperty("number") == number;
            intact &= Arrays.equals(bytes, body(number, size));
        }
        Map<String, Integer> outcomes = new TreeMap<>();
        for (String ending : endings.get(TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            outcomes.merge(ending, 1, Integer::sum);
        }
        return Map.of("received", count, "in_order", inOrder, "intact", intact,
                "outcomes", options.flag("settled") ? Map.of() : outcomes);
    }

    private static Map<String, Object> outcomes(Session session, Options options) throws Exception {
        Queue queue = session.createQueue(options.address());
        MessageConsumer consumer = session.createConsumer(queue);
        Session sending = second(session);
        List<Message> messages = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            messages.add(sending.createTextMessage("judge me"));
        }
        CompletableFuture<List<String>> endings = sendAll(sending.createProducer(queue), messages);
        for (int type : new int[] {ACCEPTED, REJECTED, RELEASED, MODIFIED_FAILED_UNDELIVERABLE}) {
            Message message = next(consumer);
            message.setIntProperty(ACK_TYPE, type);
            message.acknowledge();
        }
        return Map.of("exceptions", endings.get(TIMEOUT_MS, TimeUnit.MILLISECONDS));
    }

    private static Map<String, Object> drain(Session session, Options options) throws Exception {
        int count = options.number("count");
        Queue queue = session.createQueue(options.address());
        MessageConsumer consumer = session.createConsumer(queue);
        Session sending = second(session);
        List<Message> messages = new ArrayList<>(Collections.nCopies(count, null));
        messages.replaceAll(none -> newMessage(sending));
        CompletableFuture<List<String>> endings = sendAll(sending.createProducer(queue), messages);
        int received = 0;
        while (received < count) {
            next(consumer);
            received++;
        }
        endings.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        // Without prefetch this is answered by a drain: null once the server gave the credit back.
        boolean drained = consumer.receiveNoWait() == null;
        return Map.of("received", received, "drained", drained);
    }

    private static Message newMessage(Session session) {
        try {
            return session.createMessage();
        } catch (JMSException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Map<String, Object> request(Session session, Options options) throws Exception {
        Queue queue = session.createQueue(options.address());
        Destination replies = session.createTemporaryQueue();
        MessageConsumer answered = session.createConsumer(replies);
        MessageProducer requests = session.createProducer(queue);
        // A persistent send waits for its consumer, and here each side would wait for the other.
        requests.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        Session serving = second(session);
        MessageProducer answers = serving.createProducer(null);
        answers.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        MessageConsumer service = serving.createConsumer(queue);
        service.setMessageListener(message -> {
            try {
                TextMessage answer = serving.createTextMessage(message.getBody(String.class).toUpperCase());
                answer.setJMSCorrelationID(message.getJMSMessageID());
                answers.send(message.getJMSReplyTo(), answer);
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        List<String> texts = new ArrayList<>();
        boolean correlated = true;
        for (int number = 0; number < options.number("count"); number++) {
            TextMessage question = session.createTextMessage("ping " + number);
            question.setJMSReplyTo(replies);
            requests.send(question);
            Message reply = next(answered);
            texts.add(reply.getBody(String.class));
            correlated &= question.getJMSMessageID().equals(reply.getJMSCorrelationID());
        }
        return Map.of("replies", texts, "correlated", correlated);
    }

    private static Map<String, Object> refused(Session session, Options options) throws Exception {
        Queue queue = session.createQueue(options.address());
        Map<String, Object> conditions = new LinkedHashMap<>();
        conditions.put("sender", reason(() -> session.createProducer(queue)));
        conditions.put("receiver", reason(() -> session.createConsumer(queue)));
        return conditions;
    }

    /** The text of the exception: Qpid JMS ends it with "[condition = ...]". */
    private static String reason(Attach attach) {
        try {
            attach.run();
            return null;
        } catch (JMSException error) {
            String text = String.valueOf(error.getMessage());
            int start = text.indexOf("[condition = ");
            return start < 0 ? text : text.substring(start + "[condition = ".length(), text.indexOf(']', start));
        }
    }

    private static Map<String, Object> multicast(Session session, Options options) throws Exception {
        int count = options.number("count");
        Topic topic = session.createTopic(options.address());
        List<List<String>> heard = List.of(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        CountDownLatch all = new CountDownLatch(3 * count);
        for (List<String> mine : heard) {
            Session listening = second(session);
            listening.createConsumer(topic).setMessageListener(message -> {
                try {
                    mine.add(message.getJMSMessageID());
                    all.countDown();
                } catch (JMSException error) {
                    throw new IllegalStateException(error);
                }
            });
        }
        MessageProducer producer = session.createProducer(topic);
        for (int number = 0; number < count; number++) {
            producer.send(session.createMessage());
        }
        if (!all.await(TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException(all.getCount() + " copies are missing");
        }
        return Map.of("received", heard.stream().map(mine -> mine.stream().distinct().count()).toList());
    }

    private static Map<String, Object> anonymous(Session session, Options options) throws Exception {
        Queue known = session.createQueue(options.address());
        MessageConsumer consumer = session.createConsumer(known);
        Session sending = second(session);
        MessageProducer producer = sending.createProducer(null);
        CompletableFuture<String> ending = CompletableFuture.supplyAsync(() -> reason(
                () -> producer.send(known, sending.createMessage())));
        next(consumer);
        String accepted = ending.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        String refused = reason(() -> producer.send(sending.createQueue(options.text("unknown")), sending.createMessage()));
        return Map.of("known", accepted == null ? "accepted" : accepted, "condition", String.valueOf(refused));
    }
}
