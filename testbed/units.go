package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/testbed/servers"
)

// want says which servers up shall start.
type want struct {
	postgres []int // majors
	kafka    []int // numbers of brokers
	durable  bool
}

// everything is what up starts when no flag narrows it.
var everything = want{postgres: []int{15, 13, 18}, kafka: []int{1, 3}}

// parseWant reads the flags of up and returns the arguments after them.
func parseWant(args []string) (want, []string, error) {
	w := everything
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("postgres", "", pick(&w.postgres))
	flags.Func("kafka", "", pick(&w.kafka))
	flags.BoolVar(&w.durable, "durable", false, "")
	err := flags.Parse(args)
	return w, flags.Args(), err
}

// pick narrows a list of numbers to some of its own; "none" empties it.
func pick(list *[]int) func(string) error {
	known := slices.Clone(*list)
	return func(value string) error {
		*list = nil
		if value == "none" {
			return nil
		}
		for word := range strings.SplitSeq(value, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || !slices.Contains(known, n) {
				return fmt.Errorf("%q is none of %v", word, known)
			}
			*list = append(*list, n)
		}
		return nil
	}
}

// unit is one server or cluster that up can start.
type unit struct {
	name  string // of its folder
	key   string // of its main setting
	pids  string // of the setting with its processes' ids, "" where tests need none
	start func(ctx context.Context, dir string) (map[string]string, error)
	ping  func(ctx context.Context, value string) error
}

func (w want) units() []unit {
	var all []unit
	for _, major := range w.postgres {
		all = append(all, postgresUnit(major, w.durable))
	}
	for _, brokers := range w.kafka {
		all = append(all, kafkaUnit(brokers))
	}
	return all
}

func postgresUnit(major int, durable bool) unit {
	key := testenv.DatabaseURL
	if major != 15 {
		key = fmt.Sprintf("%s_%d", key, major)
	}
	start := func(ctx context.Context, dir string) (map[string]string, error) {
		s, err := servers.StartPostgres(ctx, servers.PostgresConfig{Major: major, Dir: dir, Durable: durable})
		if err != nil {
			return nil, err
		}
		return map[string]string{key: s.URL()}, nil
	}
	return unit{fmt.Sprintf("postgres-%d", major), key, "", start, servers.PingPostgres}
}

func kafkaUnit(brokers int) unit {
	key, pidsKey := testenv.KafkaBrokers, testenv.KafkaPids
	if brokers == 3 {
		key, pidsKey = testenv.Kafka3Brokers, testenv.Kafka3Pids
	}
	start := func(ctx context.Context, dir string) (map[string]string, error) {
		k, err := servers.StartKafka(ctx, servers.KafkaConfig{Brokers: brokers, Dir: dir})
		if err != nil {
			return nil, err
		}
		jars, err := servers.KafkaJars(ctx)
		if err != nil {
			return nil, errors.Join(err, k.Remove())
		}
		var pids []string
		for _, b := range k.Brokers {
			pids = append(pids, strconv.Itoa(b.Pid()))
		}
		return map[string]string{
			key:                    strings.Join(k.Addrs(), ","),
			pidsKey:                strings.Join(pids, ","),
			testenv.KafkaClasspath: jars,
		}, nil
	}
	ping := func(ctx context.Context, value string) error {
		return servers.PingKafka(ctx, strings.Split(value, ","))
	}
	return unit{fmt.Sprintf("kafka-%d", brokers), key, pidsKey, start, ping}
}
