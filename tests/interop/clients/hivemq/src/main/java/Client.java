import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.hivemq.client.mqtt.MqttClient;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt3.Mqtt3BlockingClient;
import com.hivemq.client.mqtt.mqtt3.message.publish.Mqtt3Publish;
import com.hivemq.client.mqtt.mqtt5.Mqtt5BlockingClient;
import com.hivemq.client.mqtt.mqtt5.message.disconnect.Mqtt5DisconnectReasonCode;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PayloadFormatIndicator;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The scenarios of MQTT with the HiveMQ client; the contract is in the README two folders up. */
public final class Client {
  /** What a subscriber received. */
  record Arrived(byte[] body, int qos, boolean retain, Mqtt5Publish properties) {
    String text() {
      return new String(body, StandardCharsets.UTF_8);
    }
  }

  /** A connection of one version; messages arrive in a queue. */
  interface Session {
    void subscribe(String filter, int qos);

    void publish(String topic, byte[] body, int qos, boolean retain);

    void disconnect();

    BlockingQueue<Arrived> arrived();
  }

  record Session5(Mqtt5BlockingClient client, BlockingQueue<Arrived> arrived) implements Session {
    public void subscribe(String filter, int qos) {
      client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send();
    }

    public void publish(String topic, byte[] body, int qos, boolean retain) {
      client.publishWith().topic(topic).payload(body).qos(MqttQos.fromCode(qos)).retain(retain)
          .send();
    }

    public void disconnect() {
      client.disconnect();
    }

    static void take(BlockingQueue<Arrived> into, Mqtt5Publish one) {
      into.add(new Arrived(one.getPayloadAsBytes(), one.getQos().getCode(), one.isRetain(), one));
    }
  }

  record Session3(Mqtt3BlockingClient client, BlockingQueue<Arrived> arrived) implements Session {
    public void subscribe(String filter, int qos) {
      client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send();
    }

    public void publish(String topic, byte[] body, int qos, boolean retain) {
      client.publishWith().topic(topic).payload(body).qos(MqttQos.fromCode(qos)).retain(retain)
          .send();
    }

    public void disconnect() {
      client.disconnect();
    }

    static void take(BlockingQueue<Arrived> into, Mqtt3Publish one) {
      into.add(new Arrived(one.getPayloadAsBytes(), one.getQos().getCode(), one.isRetain(), null));
    }
  }

  private final JsonObject options;

  private Client(JsonObject options) {
    this.options = options;
  }

  private String text(String name) {
    return options.get(name).getAsString();
  }

  private int number(String name) {
    return options.get(name).getAsInt();
  }

  private Session opened() {
    return opened(number("version"), UUID.randomUUID().toString(), 0);
  }

  /** A connection whose session outlives it for {@code keptS} seconds. */
  private Session opened(int version, String clientId, int keptS) {
    BlockingQueue<Arrived> arrived = new LinkedBlockingQueue<>();
    var builder = MqttClient.builder().identifier(clientId)
        .serverHost(text("host")).serverPort(number("port"));
    if (version == 3) {
      var client = builder.useMqttVersion3().buildBlocking();
      client.toAsync().publishes(MqttGlobalPublishFilter.ALL, one -> Session3.take(arrived, one));
      var connect = client.connectWith().cleanSession(keptS == 0);
      if (options.has("user")) {
        connect = connect.simpleAuth().username(text("user"))
            .password(text("password").getBytes(StandardCharsets.UTF_8)).applySimpleAuth();
      }
      connect.send();
      return new Session3(client, arrived);
    }
    var client = builder.useMqttVersion5().buildBlocking();
    client.toAsync().publishes(MqttGlobalPublishFilter.ALL, one -> Session5.take(arrived, one));
    var connect = client.connectWith().cleanStart(keptS == 0).sessionExpiryInterval(keptS);
    if (options.has("user")) {
      connect = connect.simpleAuth().username(text("user"))
          .password(text("password").getBytes(StandardCharsets.UTF_8)).applySimpleAuth();
    }
    connect.send();
    return new Session5(client, arrived);
  }

  private static List<Arrived> taken(Session session, int count) throws InterruptedException {
    List<Arrived> found = new ArrayList<>();
    while (found.size() < count) {
      found.add(session.arrived().take());
    }
    return found;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private Object exchange() throws InterruptedException {
    int count = number("count");
    int size = number("size");
    int version = options.has("publish_version") ? number("publish_version") : number("version");
    Session receiver = opened();
    Session sender = opened(version, UUID.randomUUID().toString(), 0);
    receiver.subscribe(text("topic"), number("qos"));
    List<byte[]> bodies = new ArrayList<>();
    for (int at = 0; at < count; at++) {
      byte[] body = new byte[size];
      Arrays.fill(body, (byte) at);
      bodies.add(body);
      sender.publish(text("topic"), body, number("publish_qos"), false);
    }
    List<Arrived> found = taken(receiver, count);
    boolean inOrder = true;
    var qos = new TreeSet<Integer>();
    for (int at = 0; at < count; at++) {
      inOrder &= Arrays.equals(found.get(at).body(), bodies.get(at));
      qos.add(found.get(at).qos());
    }
    receiver.disconnect();
    sender.disconnect();
    return Map.of("received", found.size(), "in_order", inOrder, "qos", qos);
  }

  private Object retained() throws InterruptedException {
    String topic = text("topic");
    Session sender = opened();
    sender.publish(topic, bytes("first"), 1, true);
    Session first = opened();
    first.subscribe(topic, 1);
    Arrived kept = taken(first, 1).get(0);
    sender.publish(topic, new byte[0], 1, true);
    Session second = opened();
    second.subscribe(topic, 1);
    sender.publish(topic, bytes("second"), 1, false);
    Arrived after = taken(second, 1).get(0);
    List.of(sender, first, second).forEach(Session::disconnect);
    return Map.of("kept", kept.text(), "retained", List.of(kept.retain(), after.retain()),
        "after_clearing", after.text());
  }

  private Object will() throws InterruptedException {
    Session watcher = opened();
    watcher.subscribe(text("topic"), 1);
    // The library cannot break a connection off: this DISCONNECT asks for the will (5.0, 3.14.2.1).
    Mqtt5BlockingClient victim = MqttClient.builder().useMqttVersion5()
        .serverHost(text("host")).serverPort(number("port")).buildBlocking();
    victim.connectWith().willPublish().topic(text("topic")).payload(bytes("gone"))
        .qos(MqttQos.AT_LEAST_ONCE).applyWillPublish().send();
    victim.disconnectWith().reasonCode(Mqtt5DisconnectReasonCode.DISCONNECT_WITH_WILL_MESSAGE)
        .send();
    Arrived found = taken(watcher, 1).get(0);
    watcher.disconnect();
    return Map.of("will", found.text());
  }

  private Object shared() throws InterruptedException {
    int count = number("count");
    List<Session> members = List.of(opened(), opened());
    Session sender = opened();
    for (Session member : members) {
      member.subscribe("$share/" + text("group") + "/" + text("topic"), 1);
    }
    for (int at = 0; at < count; at++) {
      sender.publish(text("topic"), bytes(String.valueOf(at)), 1, false);
    }
    var distinct = new HashSet<String>();
    var taking = new HashSet<Session>();
    int received = 0;
    while (received < count) {
      for (Session member : members) {
        Arrived one = member.arrived().poll(10, TimeUnit.MILLISECONDS);
        if (one != null) {
          distinct.add(one.text());
          taking.add(member);
          received++;
        }
      }
    }
    members.forEach(Session::disconnect);
    sender.disconnect();
    return Map.of("received", received, "distinct", distinct.size(), "each",
        taking.size() == members.size());
  }

  private Object resume() throws InterruptedException {
    int version = number("version");
    Session first = opened(version, text("client_id"), 600);
    first.subscribe(text("topic"), 1);
    first.disconnect();
    Session sender = opened();
    for (int at = 0; at < number("count"); at++) {
      sender.publish(text("topic"), bytes(String.valueOf(at)), 1, false);
    }
    Session again = opened(version, text("client_id"), 600);
    List<Integer> found = new ArrayList<>();
    for (Arrived one : taken(again, number("count"))) {
      found.add(Integer.valueOf(one.text()));
    }
    sender.disconnect();
    again.disconnect();
    return Map.of("received", found);
  }

  private Object properties() throws InterruptedException {
    Session receiver = opened();
    receiver.subscribe(text("topic"), 1);
    Session5 sender = (Session5) opened();
    sender.client().publishWith().topic(text("topic")).payload(bytes("hot"))
        .qos(MqttQos.AT_LEAST_ONCE).contentType("text/plain").responseTopic("answers")
        .correlationData(new byte[] {1, 2}).messageExpiryInterval(60)
        .payloadFormatIndicator(Mqtt5PayloadFormatIndicator.UTF_8)
        .userProperties().add("a", "1").add("a", "2").applyUserProperties().send();
    Mqtt5Publish got = taken(receiver, 1).get(0).properties();
    sender.disconnect();
    receiver.disconnect();
    byte[] correlation = new byte[got.getCorrelationData().orElseThrow().remaining()];
    got.getCorrelationData().orElseThrow().get(correlation);
    var user = got.getUserProperties().asList().stream()
        .map(one -> List.of(one.getName().toString(), one.getValue().toString())).toList();
    long expiry = got.getMessageExpiryInterval().orElseThrow();
    var answer = new TreeMap<String, Object>();
    answer.put("content_type", got.getContentType().orElseThrow().toString());
    answer.put("response_topic", got.getResponseTopic().orElseThrow().toString());
    answer.put("correlation", HexFormat.of().formatHex(correlation));
    answer.put("user", user);
    answer.put("expires", 0 < expiry && expiry <= 60);
    answer.put("format", got.getPayloadFormatIndicator().orElseThrow().getCode());
    return answer;
  }

  private Object publish() {
    Session sender = opened();
    int count = 0;
    for (JsonElement body : options.getAsJsonArray("bodies")) {
      sender.publish(text("topic"), bytes(body.getAsString()), number("qos"), false);
      count++;
    }
    sender.disconnect();
    return Map.of("published", count);
  }

  private Object consume() throws InterruptedException {
    Session receiver = opened();
    receiver.subscribe(text("topic"), number("qos"));
    List<String> found = taken(receiver, number("count")).stream().map(Arrived::text).toList();
    receiver.disconnect();
    return Map.of("received", found);
  }

  private Object refused() {
    try {
      opened().disconnect();
      return Map.of();
    } catch (RuntimeException error) {
      return Map.of("refused", error.toString());
    }
  }

  /** Runs one scenario. */
  public static void main(String[] arguments) throws InterruptedException {
    Client client = new Client(new Gson().fromJson(arguments[1], JsonObject.class));
    Object answer = switch (arguments[0]) {
      case "exchange" -> client.exchange();
      case "retained" -> client.retained();
      case "will" -> client.will();
      case "shared" -> client.shared();
      case "resume" -> client.resume();
      case "properties" -> client.properties();
      case "publish" -> client.publish();
      case "consume" -> client.consume();
      case "refused" -> client.refused();
      default -> throw new IllegalArgumentException(arguments[0]);
    };
    System.out.println(new Gson().toJson(answer));
    System.exit(0);
  }
}
