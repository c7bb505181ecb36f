"""What the service measures, as pure functions on the standard library.

Events become spans, spans become a ledger, a ledger becomes totals, and a ratio is taken last.
Nothing here reads a clock, a file, the environment or a global. In the order of the way of an
event:

``vocabulary`` ``event``    the words, and the facts that are sent
``clock``                   where a fact lies in time
``roster``                  which attempt it belongs to, and their order
``span`` ``track``          what one attempt's own facts say: spans, points, signs of life
``bounds``                  when each attempt began and ended, and the state of the job
``scene`` ``replay``        what an attempt's time looks like beside the other attempts'
``canvas`` ``painting``     its segments, painted anew only where something changed
``periods`` ``picture``     the attempts side by side, waits between them filled in
``job`` ``attempts``        sums: shares, recoveries, each attempt's numbers
``accelerators`` ``facts``  the weight of a second; what is known of the job
``failure`` ``quality``     what broke, and what the numbers rest on
``fold``                    all of it: ``fold`` once, ``JobFold`` forward
``answer``                  the shapes of what comes out
``stages`` ``milestones``   every rank's spans, for traces and time by stage
``definitions``             what others measure, from the same ledger
``checkpointing``           how often to save
"""
