package encoded

import "context"

// Offer receives the answer of a call from a service that answers with Put.
type Offer struct{ answer *Answer }

type offerKey struct{}

// NewOffer returns a context for a call that can be answered with Put.
func NewOffer(ctx context.Context) (context.Context, *Offer) {
	o := &Offer{}
	return context.WithValue(ctx, offerKey{}, o), o
}

// OfferOf returns the offer in the context, or nil if there is none.
func OfferOf(ctx context.Context) *Offer {
	o, _ := ctx.Value(offerKey{}).(*Offer)
	return o
}

// Answer returns the answer from Put. It returns nil if the service answered with a message or failed. Call it after
// the call has ended. The offer may be nil.
func (o *Offer) Answer() *Answer {
	if o == nil {
		return nil
	}
	return o.answer
}

// Put answers the call if its context has an offer. If it returns false, the service must answer with a message.
func Put(ctx context.Context, a *Answer) bool {
	o := OfferOf(ctx)
	if o != nil {
		o.answer = a
	}
	return o != nil
}
