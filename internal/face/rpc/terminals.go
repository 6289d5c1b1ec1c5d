package rpc

import (
	"cmp"
	"context"
	"math"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Terminals serves TerminalService.
type Terminals struct {
	fleetv1.UnimplementedTerminalServiceServer
	svc *service.Service
}

// NewTerminals returns the TerminalService over the core.
func NewTerminals(svc *service.Service) *Terminals { return &Terminals{svc: svc} }

type terminalStream = grpc.BidiStreamingServer[fleetv1.AttachAgentRequest, fleetv1.AttachAgentResponse]

// AttachAgent connects the caller's terminal to an agent's program.
func (t *Terminals) AttachAgent(stream terminalStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	for name, n := range map[string]int32{"columns": first.GetColumns(), "rows": first.GetRows()} {
		if n < 0 || n > math.MaxUint16 {
			return fleet.InvalidField(name, "%s is %d: the size of a terminal is 1 to %d", name, n, math.MaxUint16)
		}
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	input := make(chan fleet.TerminalInput)
	go receiveInput(ctx, stream, input)
	sendTask := func(task *fleet.Task) error { return stream.Send(&fleetv1.AttachAgentResponse{Task: taskOf(task)}) }
	task, err := t.svc.Attach(ctx, service.AttachRequest{
		Agent: first.GetAgentName(), Term: cmp.Or(first.GetTerm(), "xterm-256color"),
		Columns: clampSize(cmp.Or(first.GetColumns(), 80)), Rows: clampSize(cmp.Or(first.GetRows(), 24)),
	}, input, sendTask, func(output []byte) error {
		return stream.Send(&fleetv1.AttachAgentResponse{Output: append([]byte{}, output...)})
	})
	if err != nil {
		return err
	}
	return sendTask(task)
}

// receiveInput passes the messages of the stream on to the channel, until the caller ends the stream or ctx is done. Then it closes the channel.
func receiveInput(ctx context.Context, stream terminalStream, input chan<- fleet.TerminalInput) {
	defer close(input)
	for {
		m, err := stream.Recv()
		if err != nil {
			return
		}
		i := fleet.TerminalInput{Data: m.GetInput(), Columns: clampSize(m.GetColumns()), Rows: clampSize(m.GetRows())}
		select {
		case input <- i:
		case <-ctx.Done():
			return
		}
	}
}

// clampSize limits n to the range of uint16.
func clampSize(n int32) uint16 { return uint16(max(0, min(n, math.MaxUint16))) }
