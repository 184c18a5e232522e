package orders

// The feature sql/execquery is what opens the transaction to statements of others: it gives ent.Tx the ExecContext that
// a posthaste.Writer needs.
//go:generate go run entgo.io/ent/cmd/ent@v0.14.5 generate --feature sql/execquery --target ./ent ./schema
