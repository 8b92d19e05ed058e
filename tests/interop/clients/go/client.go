// Command client runs the interoperability scenarios with go-amqp; the contract is in the README two folders up.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

type options struct {
	Host, Address, Unknown    string
	Port, Count, Size         int
	Selector                  string
	Matching                  int
	TLS, Settled              bool
	CA, Certificate, Key      string
	Mechanism, User, Password string
}

type result map[string]any

type scenario func(context.Context, *amqp.Session, options) result

var scenarios = map[string]scenario{
	"exchange":  exchange,
	"outcomes":  outcomes,
	"drain":     drain,
	"request":   request,
	"refused":   refused,
	"multicast": multicast,
	"second":    second,
	"anonymous": anonymous,
	"queue":     queue,
	"judge":     judge,
	"browse":    browse,
	"select":    selecting,
}

// must ends the program when a step that has to work does not.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	var given options
	check(json.Unmarshal([]byte(os.Args[2]), &given))
	check(json.NewEncoder(os.Stdout).Encode(run(os.Args[1], given)))
}

func run(name string, given options) result {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	scheme := "amqp"
	if given.TLS {
		scheme = "amqps"
	}
	url := fmt.Sprintf("%s://%s:%d", scheme, given.Host, given.Port)
	connection, err := amqp.Dial(ctx, url, connectOptions(given))
	if err != nil {
		return result{"refused": err.Error()}
	}
	session := must(connection.NewSession(ctx, nil))
	answer := scenarios[name](ctx, session, given)
	check(connection.Close())
	return answer
}

func connectOptions(given options) *amqp.ConnOptions {
	connect := &amqp.ConnOptions{}
	switch given.Mechanism {
	case "ANONYMOUS", "":
		connect.SASLType = amqp.SASLTypeAnonymous()
	case "PLAIN":
		connect.SASLType = amqp.SASLTypePlain(given.User, given.Password)
	case "EXTERNAL":
		connect.SASLType = amqp.SASLTypeExternal("")
	}
	if given.TLS {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(must(os.ReadFile(given.CA)))
		connect.TLSConfig = &tls.Config{RootCAs: roots}
		if given.Certificate != "" {
			pair := must(tls.LoadX509KeyPair(given.Certificate, given.Key))
			connect.TLSConfig.Certificates = []tls.Certificate{pair}
		}
	}
	return connect
}

func body(number, size int) []byte {
	return bytes.Repeat([]byte{byte(number)}, size)
}

func numbered(number int, data []byte) *amqp.Message {
	message := amqp.NewMessage(data)
	message.Properties = &amqp.MessageProperties{MessageID: uint64(number)}
	return message
}

// receive gives a receiver whose credit is handed out by hand.
func receive(ctx context.Context, session *amqp.Session, address string, credit int, mode *amqp.SenderSettleMode) *amqp.Receiver {
	receiver := must(session.NewReceiver(ctx, address, &amqp.ReceiverOptions{
		Credit:                    -1,
		RequestedSenderSettleMode: mode,
	}))
	check(receiver.IssueCredit(uint32(credit)))
	return receiver
}

// sendAll sends in the background; the channel yields how each delivery ended.
func sendAll(ctx context.Context, sender *amqp.Sender, messages []*amqp.Message) <-chan amqp.DeliveryState {
	states := make(chan amqp.DeliveryState, len(messages))
	go func() {
		receipts := make([]amqp.SendReceipt, 0, len(messages))
		for _, message := range messages {
			receipts = append(receipts, must(sender.SendWithReceipt(ctx, message, nil)))
		}
		for index := range receipts {
			states <- must(receipts[index].Wait(ctx))
		}
		close(states)
	}()
	return states
}

// sendSettled sends in the background; the channel yields nothing, and is closed when all is sent.
func sendSettled(ctx context.Context, sender *amqp.Sender, messages []*amqp.Message) <-chan amqp.DeliveryState {
	sent := make(chan amqp.DeliveryState)
	go func() {
		for _, message := range messages {
			check(sender.Send(ctx, message, nil))
		}
		close(sent)
	}()
	return sent
}

func outcomeOf(state amqp.DeliveryState) string {
	switch state.(type) {
	case *amqp.StateAccepted:
		return "accepted"
	case *amqp.StateRejected:
		return "rejected"
	case *amqp.StateReleased:
		return "released"
	case *amqp.StateModified:
		return "modified"
	}
	return fmt.Sprintf("%T", state)
}

func exchange(ctx context.Context, session *amqp.Session, given options) result {
	mode := amqp.SenderSettleModeUnsettled
	if given.Settled {
		mode = amqp.SenderSettleModeSettled
	}
	receiver := receive(ctx, session, given.Address, given.Count, mode.Ptr())
	sender := must(session.NewSender(ctx, given.Address, &amqp.SenderOptions{SettlementMode: mode.Ptr()}))
	messages := make([]*amqp.Message, given.Count)
	for number := range messages {
		messages[number] = numbered(number, body(number, given.Size))
	}
	var states <-chan amqp.DeliveryState
	if given.Settled {
		states = sendSettled(ctx, sender, messages)
	} else {
		states = sendAll(ctx, sender, messages)
	}
	inOrder, intact := true, true
	for number := range messages {
		message := must(receiver.Receive(ctx, nil))
		inOrder = inOrder && message.Properties.MessageID == uint64(number)
		intact = intact && bytes.Equal(message.GetData(), body(number, given.Size))
		if !given.Settled {
			check(receiver.AcceptMessage(ctx, message))
		}
	}
	counted := map[string]int{}
	for state := range states {
		counted[outcomeOf(state)]++
	}
	return result{"received": given.Count, "in_order": inOrder, "intact": intact, "outcomes": counted}
}

// second sends on a link that insists on the receiver settlement mode second.
func second(ctx context.Context, session *amqp.Session, given options) result {
	sender := must(session.NewSender(ctx, given.Address, &amqp.SenderOptions{
		RequestedReceiverSettleMode: amqp.ReceiverSettleModeSecond.Ptr(),
	}))
	messages := make([]*amqp.Message, given.Count)
	for number := range messages {
		messages[number] = numbered(number, []byte("settle me twice"))
	}
	counted := result{}
	for state := range sendAll(ctx, sender, messages) {
		before, _ := counted[outcomeOf(state)].(int)
		counted[outcomeOf(state)] = before + 1
	}
	return counted
}

func outcomes(ctx context.Context, session *amqp.Session, given options) result {
	receiver := receive(ctx, session, given.Address, 4, nil)
	sender := must(session.NewSender(ctx, given.Address, nil))
	messages := make([]*amqp.Message, 4)
	for number := range messages {
		messages[number] = numbered(number, []byte("judge me"))
	}
	states := sendAll(ctx, sender, messages)
	next := func() *amqp.Message { return must(receiver.Receive(ctx, nil)) }
	check(receiver.AcceptMessage(ctx, next()))
	check(receiver.RejectMessage(ctx, next(), &amqp.Error{Condition: "test:spoiled", Description: "past its date"}))
	check(receiver.ReleaseMessage(ctx, next()))
	check(receiver.ModifyMessage(ctx, next(), &amqp.ModifyMessageOptions{DeliveryFailed: true, UndeliverableHere: true}))
	answer := result{}
	names := []string{}
	for state := range states {
		names = append(names, outcomeOf(state))
		switch state := state.(type) {
		case *amqp.StateRejected:
			if state.Error != nil {
				answer["error"] = result{"condition": state.Error.Condition, "description": state.Error.Description}
			}
		case *amqp.StateModified:
			answer["modified"] = result{
				"delivery_failed": state.DeliveryFailed, "undeliverable_here": state.UndeliverableHere,
			}
		}
	}
	answer["outcomes"] = names
	return answer
}

func drain(ctx context.Context, session *amqp.Session, given options) result {
	receiver := receive(ctx, session, given.Address, 10, nil)
	sender := must(session.NewSender(ctx, given.Address, nil))
	messages := make([]*amqp.Message, given.Count)
	for number := range messages {
		messages[number] = numbered(number, nil)
	}
	states := sendAll(ctx, sender, messages)
	for range messages {
		check(receiver.AcceptMessage(ctx, must(receiver.Receive(ctx, nil))))
	}
	for range states {
	}
	// Returns once the peer has answered that all credit is gone.
	check(receiver.DrainCredit(ctx, nil))
	return result{"received": given.Count, "drained": true}
}

func request(ctx context.Context, session *amqp.Session, given options) result {
	service := receive(ctx, session, given.Address, 10, nil)
	answers := must(session.NewSender(ctx, "", nil))
	replies := must(session.NewReceiver(ctx, "", &amqp.ReceiverOptions{DynamicAddress: true, Credit: 10}))
	requests := must(session.NewSender(ctx, given.Address, nil))
	replyTo := replies.Address()
	texts, correlated := []string{}, true
	for number := range given.Count {
		question := numbered(number, nil)
		question.Data, question.Value = nil, fmt.Sprintf("ping %d", number)
		question.Properties.ReplyTo = &replyTo
		asked := sendAll(ctx, requests, []*amqp.Message{question})
		received := must(service.Receive(ctx, nil))
		check(service.AcceptMessage(ctx, received))
		<-asked
		answered := sendAll(ctx, answers, []*amqp.Message{{
			Properties: &amqp.MessageProperties{
				To: received.Properties.ReplyTo, CorrelationID: received.Properties.MessageID,
			},
			Value: strings.ToUpper(received.Value.(string)),
		}})
		reply := must(replies.Receive(ctx, nil))
		check(replies.AcceptMessage(ctx, reply))
		<-answered
		texts = append(texts, reply.Value.(string))
		correlated = correlated && reply.Properties.CorrelationID == uint64(number)
	}
	return result{"replies": texts, "correlated": correlated}
}

func refused(ctx context.Context, session *amqp.Session, given options) result {
	_, senderErr := session.NewSender(ctx, given.Address, nil)
	_, receiverErr := session.NewReceiver(ctx, given.Address, nil)
	return result{"sender": conditionOf(senderErr), "receiver": conditionOf(receiverErr)}
}

func conditionOf(err error) any {
	var remote *amqp.Error
	if errors.As(err, &remote) {
		return remote.Condition
	}
	if err != nil {
		return err.Error()
	}
	return nil
}

func multicast(ctx context.Context, session *amqp.Session, given options) result {
	receivers := make([]*amqp.Receiver, 3)
	for index := range receivers {
		receivers[index] = receive(ctx, session, given.Address, given.Count, nil)
	}
	sender := must(session.NewSender(ctx, given.Address, nil))
	messages := make([]*amqp.Message, given.Count)
	for number := range messages {
		messages[number] = numbered(number, nil)
	}
	states := sendAll(ctx, sender, messages)
	received := []int{}
	for _, receiver := range receivers {
		heard := map[any]bool{}
		for range messages {
			message := must(receiver.Receive(ctx, nil))
			check(receiver.AcceptMessage(ctx, message))
			heard[message.Properties.MessageID] = true
		}
		received = append(received, len(heard))
	}
	for range states {
	}
	return result{"received": received}
}

func anonymous(ctx context.Context, session *amqp.Session, given options) result {
	receiver := receive(ctx, session, given.Address, 1, nil)
	sender := must(session.NewSender(ctx, "", nil))
	addressed := func(to string) []*amqp.Message {
		message := numbered(0, nil)
		message.Properties.To = &to
		return []*amqp.Message{message}
	}
	known := sendAll(ctx, sender, addressed(given.Address))
	check(receiver.AcceptMessage(ctx, must(receiver.Receive(ctx, nil))))
	answer := result{"known": outcomeOf(<-known)}
	state := <-sendAll(ctx, sender, addressed(given.Unknown))
	answer["unknown"] = outcomeOf(state)
	if rejected, ok := state.(*amqp.StateRejected); ok && rejected.Error != nil {
		answer["condition"] = rejected.Error.Condition
	}
	return answer
}
