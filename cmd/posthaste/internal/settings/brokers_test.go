package settings

import (
	"strings"
	"testing"
)

// The lists of bug reports: apache/kafka PR#18741, Trendyol/kafka-konsumer PR#151, deviceinsight/kafkactl#140.
func TestBrokerLists(t *testing.T) {
	for value, want := range map[string]string{"b1:9092, b2:9092": "b1:9092 b2:9092", " b1:9092": "b1:9092",
		"[::1]:9092": "[::1]:9092"} {
		c, err := load(t, "KAFKA_BROKERS="+value)
		if err != nil || strings.Join(c.Kafka.Brokers, " ") != want {
			t.Errorf("%q: %v, %v", value, c, err)
		}
	}
	for value, piece := range map[string]string{
		"b1:9092 b2:9092": `"b1:9092 b2:9092" has blanks`, "b1:9092,": `"" is empty`,
		`"b1:9092,b2:9092"`: `"\"b1:9092" has quotes`,
		"b1:9092 # main":    "has blanks", "PLAINTEXT://b1:9092": "has a protocol", "b1": `"b1" has no port`,
		"b1:9092;b2:9092": "more colons",
		"::1:9092":        "in brackets", "b1:kafka": `port "kafka"`, "b1:0": `port "0"`, "b1:65536": "from 1 to 65535",
		":9092": "has no host", "a/b:1": "no host has",
	} {
		if p := wrong(t, "KAFKA_BROKERS="+value)["KAFKA_BROKERS"]; !strings.Contains(p.Want, piece) {
			t.Errorf("%q: %s; want %s", value, p.Want, piece)
		}
	}
	if p := wrong(t, "KAFKA_BROKERS=")["KAFKA_BROKERS"]; !strings.HasPrefix(p.Want, "not set") {
		t.Errorf("empty: %v", p)
	}
	for line, want := range map[string]string{`KAFKA_BROKERS="b1:9092,b2:9092"`: "b1:9092 b2:9092",
		"KAFKA_BROKERS=b1:9092 # main": "b1:9092"} {
		c, err := Load(Sources{DotEnv: dotEnv(t, line)}, GroupKafka)
		if err != nil || strings.Join(c.Kafka.Brokers, " ") != want {
			t.Errorf(".env %s: %v", line, err)
		}
	}
}

func TestBrokersInFile(t *testing.T) {
	for line, want := range map[string]string{
		"b1:9092, b2:9092": "b1:9092, b2:9092", "b1:9092 # main": "b1:9092", `"b1:9092,b2:9092"`: "b1:9092, b2:9092",
		"[b1:9092, b2:9092]": "b1:9092, b2:9092", `["[::1]:9092"]`: "[::1]:9092", `'[::1]:9092'`: "[::1]:9092",
	} {
		e := explain(t, Sources{File: file(t, "kafka:\n  brokers: "+line)}, "KAFKA_BROKERS")
		if e.Wrong || e.Text() != want {
			t.Errorf("%s: %s", line, e.Text())
		}
	}
	for line, piece := range map[string]string{
		"b1:9092 b2:9092": "has blanks", "b1:9092,": "is empty", "PLAINTEXT://b1:9092": "has a protocol",
		"b1": "has no port", "[b1]": "has no port", "['b1:9092,b2:9092']": "more colons", "[]": "at least one",
		"[{b1: 9092}]":  "want host:port, not",
		`["'b1:9092'"]`: "has quotes", "{b1: 9092}": "commas, not a section",
	} {
		_, err := loadFile(t, "kafka:\n  brokers: "+line)
		if err == nil || !strings.Contains(err.Error(), "(f:2): want") || !strings.Contains(err.Error(), piece) ||
			strings.Contains(err.Error(), "; KAFKA") {
			t.Errorf("%s: %v; want %s", line, err, piece)
		}
	}
}
