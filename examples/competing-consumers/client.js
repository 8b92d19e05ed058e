// A worker. Start several: each job goes to one of them.
const rhea = require('rhea');

const { hostname: host, port } = new URL(process.argv[2]);
const receiver = rhea.connect({ host, port }).open_receiver({ source: 'jobs', credit_window: 1 });

receiver.on('receiver_open', () => console.log('ready'));
receiver.on('message', ({ message }) => {
  console.log(message.body); // accepted on return: only then does the producer hear of it
});
