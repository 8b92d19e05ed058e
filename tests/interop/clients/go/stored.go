package main

import (
	"context"
	"fmt"

	"github.com/Azure/go-amqp"
)

// fill sends numbered messages, every other of them red, to a queue that nobody consumes from.
func fill(ctx context.Context, session *amqp.Session, address string, count int) {
	sender := must(session.NewSender(ctx, address, nil))
	messages := make([]*amqp.Message, count)
	for number := range messages {
		colour := "red"
		if number%2 == 1 {
			colour = "blue"
		}
		messages[number] = numbered(number, nil)
		messages[number].ApplicationProperties = map[string]any{"number": int32(number), "colour": colour}
	}
	for state := range sendAll(ctx, sender, messages) {
		if outcomeOf(state) != "accepted" {
			panic(fmt.Sprintf("a message was not accepted: %T", state))
		}
	}
	check(sender.Close(ctx))
}

// numbers takes the next messages of a queue, accepts them and says which they were.
func numbers(ctx context.Context, session *amqp.Session, address string, count int, given *amqp.ReceiverOptions) []int32 {
	receiver := must(session.NewReceiver(ctx, address, given))
	found := []int32{}
	for len(found) < count {
		message := must(receiver.Receive(ctx, nil))
		found = append(found, message.ApplicationProperties["number"].(int32))
		check(receiver.AcceptMessage(ctx, message))
	}
	check(receiver.Close(ctx))
	return found
}

func queue(ctx context.Context, session *amqp.Session, given options) result {
	fill(ctx, session, given.Address, given.Count)
	return result{"received": numbers(ctx, session, given.Address, given.Count, nil)}
}

func judge(ctx context.Context, session *amqp.Session, given options) result {
	fill(ctx, session, given.Address, 1)
	receiver := receive(ctx, session, given.Address, 3, nil)
	judges := []func(*amqp.Message) error{
		func(message *amqp.Message) error { return receiver.ReleaseMessage(ctx, message) },
		func(message *amqp.Message) error {
			return receiver.ModifyMessage(ctx, message, &amqp.ModifyMessageOptions{DeliveryFailed: true})
		},
		func(message *amqp.Message) error { return receiver.AcceptMessage(ctx, message) },
	}
	counts := []uint32{}
	for _, decide := range judges {
		message := must(receiver.Receive(ctx, nil))
		count := uint32(0)
		if message.Header != nil {
			count = message.Header.DeliveryCount
		}
		counts = append(counts, count)
		check(decide(message))
	}
	return result{"counts": counts}
}

func browse(ctx context.Context, session *amqp.Session, given options) result {
	fill(ctx, session, given.Address, given.Count)
	copying := &amqp.ReceiverOptions{SourceDistributionMode: amqp.SourceDistributionModeCopy}
	return result{
		"browsed":  numbers(ctx, session, given.Address, given.Count, copying),
		"received": numbers(ctx, session, given.Address, given.Count, nil),
	}
}

func selecting(ctx context.Context, session *amqp.Session, given options) result {
	fill(ctx, session, given.Address, given.Count)
	filter := amqp.NewSelectorFilter(given.Selector)
	picky := &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{filter}}
	return result{
		"selected": numbers(ctx, session, given.Address, given.Matching, picky),
		"rest":     numbers(ctx, session, given.Address, given.Count-given.Matching, nil),
	}
}
