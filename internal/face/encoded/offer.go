package encoded

import "context"

// Offer is how a call gets an answer whose part is encoded already.
type Offer struct{ answer *Answer }

type offerKey struct{}

// NewOffer returns a context for a call that can be answered with Put.
func NewOffer(ctx context.Context) (context.Context, *Offer) {
	o := &Offer{}
	return context.WithValue(ctx, offerKey{}, o), o
}

// Answer returns what the call was answered with; nil if it was answered with a message, or failed. It may be called
// after the call.
func (o *Offer) Answer() *Answer { return o.answer }

// Put answers the call, if its context has an offer. Otherwise the call has to be answered with a message.
func Put(ctx context.Context, a *Answer) bool {
	o, ok := ctx.Value(offerKey{}).(*Offer)
	if ok {
		o.answer = a
	}
	return ok
}

// Inherit returns ctx with the offer of the call that from belongs to. It is needed where a context's values are lost.
func Inherit(ctx, from context.Context) context.Context {
	if o, ok := from.Value(offerKey{}).(*Offer); ok {
		return context.WithValue(ctx, offerKey{}, o)
	}
	return ctx
}
