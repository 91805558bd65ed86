"""What formats share that take their schemas from a schema registry with Confluent's interface.

    schemas          what a registry holds: ids, schemas, references between them (pure)
    subjects         names of subjects (pure)
    framed_decoder   a decoder of messages with many schemas, for formats to fill in (pure)
    frames           the schema ids of a batch of messages, and the payloads behind them (pure)
    message_indexes  Protobuf's part of a frame: which message of a schema (pure)
    id_table         which ids are known, asked for, waited for, or absent: events in, effects out
    access           address, secrets and TLS files of one registry
    asking           the thread that asks for ids, as the table decides
    client           requests; the only module here that knows Confluent's client, which it imports when it is opened

Must not know Avro or Protobuf: a schema is text here.
"""
