package servers

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Listener is a further way into every broker of a cluster, with TLS, SASL or both.
type Listener struct {
	Name string   // capital letters; Broker.Listener finds the address by it
	TLS  *KeyPair // nil for none
	SASL []string // mechanisms offered: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; none for no SASL

	// Advertised is the host:port that clients of this listener are sent to, where that is not its own address: the one
	// of a proxy, in a cluster of one broker.
	Advertised string
}

// KeyPair is what a server shows to its clients, in PEM: its certificate, with those that lead to the authority, and
// its private key in PKCS #8.
type KeyPair struct {
	Certificate, Key []byte
}

func (l Listener) protocol() string {
	switch {
	case l.TLS != nil && len(l.SASL) > 0:
		return "SASL_SSL"
	case l.TLS != nil:
		return "SSL"
	case len(l.SASL) > 0:
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

// addListener adds a listener to the broker's properties and writes its key.
func (b *Broker) addListener(l Listener, port int, users map[string]string, properties map[string]string) error {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	b.listeners[l.Name] = address
	properties["listeners"] += fmt.Sprintf(",%s://%s", l.Name, address)
	properties["advertised.listeners"] += fmt.Sprintf(",%s://%s", l.Name, cmp.Or(l.Advertised, address))
	properties["listener.security.protocol.map"] += fmt.Sprintf(",%s:%s", l.Name, l.protocol())
	prefix := "listener.name." + strings.ToLower(l.Name) + "."
	if l.TLS != nil {
		store := filepath.Join(b.dir, l.Name+".pem")
		if err := os.WriteFile(store, slices.Concat(l.TLS.Key, l.TLS.Certificate), 0o600); err != nil {
			return fmt.Errorf("write key of listener %s: %w", l.Name, err)
		}
		properties[prefix+"ssl.keystore.type"] = "PEM"
		properties[prefix+"ssl.keystore.location"] = store
	}
	for _, mechanism := range l.SASL {
		module := "scram.ScramLoginModule required;"
		if mechanism == "PLAIN" {
			module = "plain.PlainLoginModule required"
			for name, secret := range users {
				module += fmt.Sprintf(" user_%s=%q", name, secret)
			}
			module += ";"
		}
		properties[prefix+strings.ToLower(mechanism)+".sasl.jaas.config"] = "org.apache.kafka.common.security." + module
	}
	if len(l.SASL) > 0 {
		properties[prefix+"sasl.enabled.mechanisms"] = strings.Join(l.SASL, ",")
	}
	return nil
}

// scramUsers are the arguments of Kafka's StorageTool that make the users known to the SCRAM mechanisms.
func scramUsers(users map[string]string) []string {
	var args []string
	for name, secret := range users {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, name, secret))
		}
	}
	return args
}

// Listener returns host:port of a listener of the cluster's configuration.
func (b *Broker) Listener(name string) string { return b.listeners[name] }
