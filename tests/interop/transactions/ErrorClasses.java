/* What Kafka's own producer makes of an error, request by request.
 *
 *     java ErrorClasses.java BOOTSTRAP TOPIC
 *
 * Each line of standard input names the call in whose request an error waits, and gets one line of answer:
 * "repeat" where the call has succeeded all the same, "abort" where it has failed and the transaction could be aborted,
 * "fatal" where nothing could be done any more.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class ErrorClasses {
    private static final int LOOKS = 3_000;
    private static final int BETWEEN_LOOKS_MS = 10;

    private final String bootstrap;
    private final String topic;

    private ErrorClasses(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        ErrorClasses classes = new ErrorClasses(arguments[0], arguments[1]);
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String call = calls.readLine(); call != null; call = calls.readLine()) {
            System.out.println(classes.outcome(call, "java-" + number++));
            System.out.flush();
        }
    }

    private String outcome(String call, String transactionalId) throws InterruptedException {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "transactional.id", transactionalId,
            "retry.backoff.ms", 10,
            "retry.backoff.max.ms", 50,
            "max.block.ms", 10_000);
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        try {
            run(producer, call, transactionalId);
            return "repeat";
        } catch (KafkaException failure) {
            return goesOn(producer, call) ? "abort" : "fatal";
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    /** Whether the producer is of use after an abort, or, where nothing has begun, when it is initialized again. */
    private static boolean goesOn(KafkaProducer<byte[], byte[]> producer, String call) throws InterruptedException {
        // A caller is told of the error before the producer's own thread has come to its next state, and what is asked of
        // it in between can make the error a fatal one.
        awaitSettled(producer);
        for (int looks = 0; looks < LOOKS && !state(producer).equals("FATAL_ERROR"); looks++) {
            if (call.equals("init") && refusal(producer::initTransactions) == null
                || refusal(producer::abortTransaction) == null) {
                return true;
            }
            Thread.sleep(BETWEEN_LOOKS_MS);
        }
        return false;
    }

    private static void awaitSettled(KafkaProducer<byte[], byte[]> producer) throws InterruptedException {
        for (int looks = 0; looks < LOOKS; looks++) {
            boolean onItsWay = switch (state(producer)) {
                case "INITIALIZING", "COMMITTING_TRANSACTION" -> true;
                // Of these the producer gets rid by itself: it may be initialized again.
                case "ABORTABLE_ERROR" -> lastError(producer) instanceof TransactionalIdAuthorizationException
                    || lastError(producer) instanceof ClusterAuthorizationException;
                default -> false;
            };
            if (!onItsWay) {
                return;
            }
            Thread.sleep(BETWEEN_LOOKS_MS);
        }
        throw new IllegalStateException("the producer stays in " + state(producer));
    }

    private static String state(KafkaProducer<byte[], byte[]> producer) {
        return field(field(producer, "transactionManager"), "currentState").toString();
    }

    private static Object lastError(KafkaProducer<byte[], byte[]> producer) {
        return field(field(producer, "transactionManager"), "lastError");
    }

    /** What the producer knows of itself, and tells nobody. */
    private static Object field(Object owner, String name) {
        try {
            Field field = owner.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field.get(owner);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("this release of Kafka has another producer", error);
        }
    }

    private static RuntimeException refusal(Runnable step) {
        try {
            step.run();
            return null;
        } catch (KafkaException | IllegalStateException refused) {
            return refused;
        }
    }

    /** A whole transaction, in which the request of the call is sent. */
    @SuppressWarnings("removal")
    private void run(KafkaProducer<byte[], byte[]> producer, String call, String transactionalId) {
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, new byte[1]));
        producer.flush();
        if (call.endsWith("offsets")) {
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)),
                new ConsumerGroupMetadata("group-of-" + transactionalId));
        }
        if (call.equals("abort")) {
            producer.abortTransaction();
        } else {
            producer.commitTransaction();
        }
    }
}
