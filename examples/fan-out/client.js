// A listener. Start several: each message goes to all of them.
const rhea = require('rhea');

const { hostname: host, port } = new URL(process.argv[2]);
const receiver = rhea.connect({ host, port }).open_receiver('news');

receiver.on('receiver_open', () => console.log('ready'));
receiver.on('message', ({ message }) => console.log(message.body));
