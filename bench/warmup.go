package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// warmUp produces and consumes until the brokers' code is compiled: a cold broker answers ten times later than one that
// has run for half a minute.
func (r *runner) warmUp(ctx context.Context) (err error) {
	if r.warm == 0 {
		return nil
	}
	fmt.Fprintf(r.progress, "warm up the brokers for %s\n", r.warm)
	clusters := []layout{usual(0)}
	for _, s := range r.scenarios {
		if s.name == "slow-broker" && r.brokers3 != "" {
			three := usual(0)
			three.three = true
			clusters = append(clusters, three)
		}
	}
	for _, l := range clusters {
		if err := r.warmUpCluster(ctx, l, r.warm/time.Duration(len(clusters))); err != nil {
			return fmt.Errorf("warm up the brokers: %w", err)
		}
	}
	return nil
}

func (r *runner) warmUpCluster(ctx context.Context, l layout, length time.Duration) (err error) {
	p, err := r.place(ctx, l, floor{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	w, err := p.watch(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	client, err := newProducer(p.brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	value := []byte(strings.Repeat("x", 300))
	for until := time.Now().Add(length); time.Now().Before(until); {
		records := make([]*kgo.Record, 50)
		for i := range records {
			records[i] = &kgo.Record{Topic: p.topics[0], Key: fmt.Append(nil, i), Value: value}
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}
