// Package encoded lets many calls share the encoding of an answer. A service that gives the same answer many times
// answers with a Part, which is encoded only once in each format. A face that can send such answers puts an Offer into
// the context of the call, and the service answers with Put.
//
// Package rpc provides the answers, and the faces send them. This package must never decide who may share an answer: the
// service does.
package encoded
