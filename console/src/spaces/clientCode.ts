/** How a program connects: the same first message in the client libraries that people use. */

export interface Target {
  host: string;
  port: number;
  isTls: boolean;
  /** What selects the space: the virtual host of `sasl-init` and `open`. */
  virtualHost: string;
  address: string;
  /** Whether clients log in as a user of the space. */
  needsUser: boolean;
}

export interface Sample {
  title: string;
  text: string;
}

/** A literal of languages whose strings are those of JSON: JavaScript, Python, Go, Java. */
const quoted = (text: string) => JSON.stringify(text);

function url(target: Target, scheme: [plain: string, tls: string] = ['amqp', 'amqps']): string {
  return `${target.isTls ? scheme[1] : scheme[0]}://${target.host}:${String(target.port)}`;
}

function commandLine(target: Target): string {
  const shell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const user = target.needsUser ? ' --user USER' : '';
  const common = `${shell(target.address)} --url ${url(target)} --space ${target.virtualHost}${user}`;
  return `enmasse receive ${common} --count 1 &\nenmasse send ${common} 'hello'`;
}

function rhea(target: Target): string {
  const login = target.needsUser ? `\n  username: 'USER',\n  password: process.env.PASSWORD,` : '';
  const tls = target.isTls ? `\n  transport: 'tls',\n  ca: fs.readFileSync('ca.crt'),` : '';
  return `// npm install rhea
import fs from 'node:fs';
import rhea from 'rhea';

const connection = rhea.connect({
  host: ${quoted(target.host)},
  port: ${String(target.port)},
  servername: ${quoted(target.virtualHost)},
  hostname: ${quoted(target.virtualHost)},${tls}${login}
});
connection.open_receiver(${quoted(target.address)});
const sender = connection.open_sender(${quoted(target.address)});
sender.once('sendable', () => sender.send({ body: 'hello', durable: true }));
connection.on('message', ({ message }) => {
  console.log(message.body);
  connection.close();
});
`;
}

function proton(target: Target): string {
  const login = target.needsUser ? `, user="USER", password=os.environ["PASSWORD"]` : '';
  const tls = target.isTls
    ? `\ndomain = SSLDomain(SSLDomain.MODE_CLIENT)\ndomain.set_trusted_ca_db("ca.crt")\n`
    : '';
  return `# pip install python-qpid-proton
import os

from proton import Message, SSLDomain
from proton.utils import BlockingConnection
${tls}
connection = BlockingConnection(
    ${quoted(url(target))}, virtual_host=${quoted(target.virtualHost)}${target.isTls ? ', ssl_domain=domain' : ''}${login}
)
receiver = connection.create_receiver(${quoted(target.address)}, credit=1)
sender = connection.create_sender(${quoted(target.address)})
sender.send(Message(body="hello", durable=True))
print(receiver.receive(timeout=10).body)
receiver.accept()
connection.close()
`;
}

function jms(target: Target): string {
  const tls = target.isTls
    ? '&transport.trustStoreLocation=trust.p12&transport.trustStorePassword=SECRET'
    : '';
  const login = target.needsUser ? `("USER", System.getenv("PASSWORD"))` : '()';
  return `// org.apache.qpid:qpid-jms-client
import jakarta.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;

var factory = new JmsConnectionFactory(
    ${quoted(`${url(target)}?amqp.vhost=${encodeURIComponent(target.virtualHost)}${tls}`)});
try (JMSContext context = factory.createContext${login}) {
  Queue queue = context.createQueue(${quoted(target.address)});
  context.createProducer().send(queue, "hello");
  System.out.println(context.createConsumer(queue).receiveBody(String.class, 10_000));
}
`;
}

function go(target: Target): string {
  const login = target.needsUser
    ? `\n\t\tSASLType: amqp.SASLTypePlain("USER", os.Getenv("PASSWORD")),`
    : `\n\t\tSASLType: amqp.SASLTypeAnonymous(),`;
  return `// go get github.com/Azure/go-amqp
ctx := context.Background()
connection, err := amqp.Dial(ctx, ${quoted(url(target))}, &amqp.ConnOptions{
\t\tHostName: ${quoted(target.virtualHost)},${login}
})
// each err: check it
session, err := connection.NewSession(ctx, nil)
receiver, err := session.NewReceiver(ctx, ${quoted(target.address)}, nil)
sender, err := session.NewSender(ctx, ${quoted(target.address)}, nil)
err = sender.Send(ctx, amqp.NewMessage([]byte("hello")), nil)
message, err := receiver.Receive(ctx, nil)
fmt.Println(string(message.GetData()))
err = receiver.AcceptMessage(ctx, message)
`;
}

export function samplesFor(target: Target): Sample[] {
  return [
    { title: 'enmasse', text: commandLine(target) },
    { title: 'Python (Proton)', text: proton(target) },
    { title: 'Node.js (rhea)', text: rhea(target) },
    { title: 'Java (JMS)', text: jms(target) },
    { title: 'Go', text: go(target) },
  ];
}
