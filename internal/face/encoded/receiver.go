package encoded

import "context"

// Receiver receives the response to a call from a service that calls Respond.
type Receiver struct{ response *Response }

type receiverKey struct{}

// NewReceiver returns a context for a call whose service can call Respond.
func NewReceiver(ctx context.Context) (context.Context, *Receiver) {
	rcv := &Receiver{}
	return context.WithValue(ctx, receiverKey{}, rcv), rcv
}

// ReceiverFrom returns the receiver in the context, or nil if there is none.
func ReceiverFrom(ctx context.Context) *Receiver {
	rcv, _ := ctx.Value(receiverKey{}).(*Receiver)
	return rcv
}

// Response returns the response that the service passed to Respond. It returns nil if the service returned a message or failed.
// Call it after the call has ended. The receiver may be nil.
func (rcv *Receiver) Response() *Response {
	if rcv == nil {
		return nil
	}
	return rcv.response
}

// Respond responds to the call with r if its context has a receiver. Then it returns true, and the message that the
// service returns is ignored. Otherwise it returns false, and the service must return the whole message.
func Respond(ctx context.Context, r *Response) bool {
	rcv := ReceiverFrom(ctx)
	if rcv != nil {
		rcv.response = r
	}
	return rcv != nil
}
