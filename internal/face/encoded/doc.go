// Package encoded lets many calls share the encoding of an answer. A service that gives the same answer again hands over
// a Part, which is encoded once in each form that is asked for. The service and the face meet in the context of the call:
// a face that can send such answers says so with Offer, and the service answers with Put.
//
// Package rpc provides the answers, and the faces send them. This package must never decide who may share an answer: the
// service does.
package encoded
