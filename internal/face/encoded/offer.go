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

// OfferOf returns the offer of the context; nil if it has none.
func OfferOf(ctx context.Context) *Offer {
	o, _ := ctx.Value(offerKey{}).(*Offer)
	return o
}

// Answer returns what the call was answered with; nil if it was answered with a message, or failed. It may be called
// after the call.
func (o *Offer) Answer() *Answer {
	if o == nil {
		return nil
	}
	return o.answer
}

// Put answers the call, if its context has an offer. Otherwise the call has to be answered with a message.
func Put(ctx context.Context, a *Answer) bool {
	o := OfferOf(ctx)
	if o != nil {
		o.answer = a
	}
	return o != nil
}

// Inherit returns ctx with the offer of the call that from belongs to. It is needed where a context's values are lost.
func Inherit(ctx, from context.Context) context.Context {
	if o := OfferOf(from); o != nil {
		return context.WithValue(ctx, offerKey{}, o)
	}
	return ctx
}
