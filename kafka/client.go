package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// ClientOptions are what a further client of the same cluster needs, such as a consumer or an administrator: where it
// is, and TLS and SASL. They hold nothing of how the relay produces.
func (c Config) ClientOptions() ([]kgo.Opt, error) {
	opts, err := c.reachOptions()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := c.tls()
	if tlsConfig != nil {
		opts = append(opts, kgo.DialTLSConfig(tlsConfig))
	}
	return opts, err
}

// reachOptions are ClientOptions without TLS, for whoever dials himself.
func (c Config) reachOptions() ([]kgo.Opt, error) {
	mechanism, err := c.mechanism()
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...)}
	if c.ClientID != "" {
		opts = append(opts, kgo.ClientID(c.ClientID))
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}
