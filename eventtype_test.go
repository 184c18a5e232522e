package posthaste

import (
	"errors"
	"strings"
	"testing"
)

func TestTopics(t *testing.T) {
	for _, c := range []struct {
		aggregate, name string
		topic           string // what follows the service
	}{
		// The seed's table of topics.
		{"Order", "order.created", "order.created"},
		{"Order", "order.confirmed", "order.confirmed"},
		{"Payment", "payment.refunded", "payment.refunded"},
		{"Customer", "customer.registered", "customer.registered"},
		// The seed's other style of names.
		{"Order", "OrderConfirmed", "order.confirmed"},
		{"Order", "OrderPaymentFailed", "order.payment-failed"},
		// The aggregate is said once, and only a whole word of it is taken off.
		{"Order", "confirmed", "order.confirmed"},
		{"Order", "ordered", "order.ordered"},
		{"Order", "payment.charged", "order.payment.charged"},
		{"OrderItem", "order-item.added", "order-item.added"},
		{"OrderItem", "OrderItemAdded", "order-item.added"},
		{"order_item", "order_item.added", "order_item.added"},
		{"HTTPCall", "HTTPCallFailed", "http-call.failed"},
		{"Account", "transfer.completed", "account.transfer.completed"},
		{"Price", "price.set", "price.set"},
	} {
		r, err := NewRegistry(EventType{Service: "shop-service", Aggregate: c.aggregate, Name: c.name, Version: 2})
		if err != nil {
			t.Errorf("%s, %s: %v", c.aggregate, c.name, err)
			continue
		}
		got, ok := r.Lookup(c.name + ".v2")
		if want := "shop-service." + c.topic; !ok || got.Topic != want {
			t.Errorf("%s, %s: topic %q, want %q", c.aggregate, c.name, got.Topic, want)
		}
	}
}

func TestTopicPerAggregateAndGivenTopic(t *testing.T) {
	r, err := NewRegistry(
		EventType{Service: "order-service", Aggregate: "Order", Name: "OrderCreated", Version: 1,
			TopicPerAggregate: true},
		EventType{Service: "order-service", Aggregate: "Order", Name: "OrderCancelled", Version: 1,
			TopicPerAggregate: true},
		EventType{Aggregate: "Order", Name: "order.shipped", Version: 3, Topic: "Legacy_Orders"},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, typ := range r.Types() {
		got = append(got, typ.String()+" "+typ.Topic)
	}
	want := "OrderCancelled.v1 order-service.order, OrderCreated.v1 order-service.order, order.shipped.v3 Legacy_Orders"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("types are\n%s, want\n%s", s, want)
	}
}

func TestRegistryRefuses(t *testing.T) {
	good := EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed", Version: 1}
	for _, c := range []struct {
		change func(*EventType)
		want   string // "field: part of the message"
	}{
		{func(t *EventType) { t.Service = "" }, "Service: is empty"},
		{func(t *EventType) { t.Service = "order service" }, "Service: want ASCII letters"},
		{func(t *EventType) { t.Aggregate = "" }, "Aggregate: is empty"},
		{func(t *EventType) { t.Aggregate = "Заказ" }, "Aggregate: want ASCII letters"},
		{func(t *EventType) { t.Aggregate = "Order\n" }, "Aggregate: want ASCII letters"},
		{func(t *EventType) { t.Name = "" }, "Name: is empty"},
		{func(t *EventType) { t.Name = "order..confirmed" }, "Name: in parts joined by one"},
		{func(t *EventType) { t.Name = "order." }, "Name: in parts joined by one"},
		{func(t *EventType) { t.Name = "order.confirmed.v1" }, "Name: ends in a version"},
		{func(t *EventType) { t.Version = 0 }, "Version: versions count from 1"},
		{func(t *EventType) { t.Version = -1 }, "Version: versions count from 1"},
		{func(t *EventType) { t.Topic = "orders"; t.TopicPerAggregate = true }, "Topic: choose one"},
		{func(t *EventType) { t.Topic = "my orders" }, "Topic: not a legal Kafka topic"},
		{func(t *EventType) { t.Topic = ".." }, "Topic: not a legal Kafka topic"},
		{func(t *EventType) { t.Topic = strings.Repeat("x", 250) }, "Topic: has 250 bytes"},
		{func(t *EventType) { t.Service = strings.Repeat("x", 240) }, "Topic: has 256 bytes"},
		{func(t *EventType) { t.Name = "order.confirm" }, `Name: "confirm"`},
		{func(t *EventType) { t.Name = "ConfirmOrder" }, `Name: "confirm"`},
		{func(t *EventType) { t.Name = "OrderConfirm" }, `Name: "confirm"`},
		{func(t *EventType) { t.Name = "order.invoice-send" }, `Name: "send"`},
	} {
		typ := good
		c.change(&typ)
		_, err := NewRegistry(typ)
		field, text, _ := strings.Cut(c.want, ": ")
		var mistake *EventTypeError
		if !errors.As(err, &mistake) {
			t.Errorf("%+v: %v, want an EventTypeError", typ, err)
			continue
		}
		if mistake.Field != field || !strings.Contains(mistake.Error(), text) {
			t.Errorf("%+v: %v, want %s", typ, mistake, c.want)
		}
		if imperative := strings.HasPrefix(text, `"`); errors.Is(err, ErrImperative) != imperative {
			t.Errorf("%v: is ErrImperative is not %v", err, imperative)
		}
	}

	allowed := good
	allowed.Name, allowed.AllowImperative = "order.hold", true
	if _, err := NewRegistry(allowed); err != nil {
		t.Errorf("AllowImperative: %v", err)
	}
}

func TestRegistryTellsAllMistakesAtOnce(t *testing.T) {
	good := EventType{Service: "order-service", Aggregate: "Order", Name: "order.confirmed", Version: 1}
	_, err := NewRegistry(good, EventType{Service: "s", Aggregate: "Order", Name: "order.send"}, good, EventType{})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"event type order.send.v0: Version is 0", "event type order.send.v0: Name is a command",
		"event type order.confirmed.v1: Name is registered twice",
		"Service is empty", "Aggregate is empty", "event type .v0: Name is empty",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}
