package settings

import (
	"strings"
	"testing"
)

func TestUnknownNames(t *testing.T) {
	for _, pair := range []string{
		"POSTHASTE_PORT=tcp://10.0.0.1:80", "POSTHASTE_PORT_9188_TCP=tcp://10.0.0.1:9188",
		"POSTHASTE_PORT_9188_TCP_ADDR=10.0.0.1", "POSTHASTE_PORT_9188_TCP_PORT=9188",
		"POSTHASTE_PORT_9188_TCP_PROTO=tcp", "POSTHASTE_SERVICE_HOST=10.0.0.1", "POSTHASTE_SERVICE_PORT=9188",
		"POSTHASTE_SERVICE_PORT_HTTP_METRICS=9188",
		"POSTHASTE_RELAY_SERVICE_HOST=fd00::1", "POSTHASTE_RELAY_PORT=tcp://[fd00::1]:80",
		"POSTHASTE_RELAY_PORT_80_UDP_PROTO=udp", "POSTHASTE_TEST_DATABASE_URL=x", "POSTHASTE_E2E_SEED=7",
		"KAFKA_TOPIC=x", "OTHER=x", "POSTHASTE_CONFIG=x", "POSTHASTE=x",
	} {
		if found := wrong(t, pair); len(found) > 0 {
			t.Errorf("%s refused: %v", pair, found)
		}
	}
	for name, near := range map[string]string{"POSTHASTE_LEASE": "POSTHASTE_RELAY_LEASE",
		"POSTHASTE_RELAY_BATCHMAX": "POSTHASTE_RELAY_BATCH_MAX",
		"POSTHASTE_TRANSPORT":      "", "POSTHASTE_TABEL": "POSTHASTE_TABLE",
		"POSTHASTE_KAFKA_CLIENT": "POSTHASTE_KAFKA_CLIENT_ID",
		"POSTHASTE_RELAY":        "", "POSTHASTE_HTTP_PORT": "", "POSTHASTE_DATABASE_URL": "DATABASE_URL",
		"POSTHASTE_KAFKA_BROKERS": "KAFKA_BROKERS", "POSTHASTE_RELAY_LEASE_SECONDS": "POSTHASTE_RELAY_LEASE",
		"POSTHASTE_RELAY_BATCH_SIZE": "OUTBOX_RELAY_BATCH_SIZE", "POSTHASTE_SERVICE": "",
		"POSTHASTE_TABLE_FILE": "POSTHASTE_TABLE"} {
		p, ok := wrong(t, name+"=sesame")[name]
		want := "remove it"
		if near != "" {
			want += " (" + near + " is one)"
		}
		if !ok || !strings.HasSuffix(p.Want, want) || strings.Contains(p.Error(), "sesame") {
			t.Errorf("%s: %v", name, p)
		}
	}
	_, err := Load(Sources{DotEnv: map[string]string{"POSTHASTE_TABEL": "x"}}, GroupDatabase)
	if err == nil || !strings.Contains(err.Error(), "POSTHASTE_TABEL (.env): no such setting") {
		t.Errorf("in .env: %v", err)
	}
}
