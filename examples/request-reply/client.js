// A client that asks one question and prints the answer.
const rhea = require('rhea');

const { hostname: host, port } = new URL(process.argv[2]);
const connection = rhea.connect({ host, port });
const answers = connection.open_receiver({ source: { dynamic: true } }); // a reply address of its own
answers.on('receiver_open', () => {
  const question = { body: process.argv[3], message_id: 1, reply_to: answers.source.address };
  connection.open_sender('questions').once('sendable', ({ sender }) => sender.send(question));
});
answers.on('message', ({ message }) => {
  console.log(message.body);
  connection.close();
});
