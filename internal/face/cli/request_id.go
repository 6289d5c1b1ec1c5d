package cli

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// addRequestID adds the flag --request-id, which makes it safe to repeat a command in another process. Retries within
// one process are safe without it, because conn sets a missing id in every request that has the field.
func addRequestID(cmd *cobra.Command, req proto.Message) {
	m := req.ProtoReflect()
	cmd.Flags().Func("request-id", "an `ID` of your choice; a second command with the same ID has no further effect", func(id string) error {
		m.Set(fieldWithRole(m.Descriptor(), fleetv1.Shown_request_id), protoreflect.ValueOfString(id))
		return nil
	})
}

// requestIDOf returns the id that the flag --request-id has set, or "".
func requestIDOf(req proto.Message) string {
	m := req.ProtoReflect()
	return m.Get(fieldWithRole(m.Descriptor(), fleetv1.Shown_request_id)).String()
}

// checkRequestID returns an error if the request has an id and there are several agents, because each agent needs a request of its own.
func checkRequestID(req proto.Message, names []string) error {
	if requestIDOf(req) != "" && len(names) > 1 {
		return usagef("--request-id works for one agent only: name one agent")
	}
	return nil
}
