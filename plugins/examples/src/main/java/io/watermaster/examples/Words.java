package io.watermaster.examples;

import java.util.Arrays;
import java.util.random.RandomGenerator;

/** Words after Zipf's law: the n-th is as frequent as 1/n. */
final class Words {
    /** Of each word, the chance of it or one that is more frequent. */
    private final double[] chances;

    /** So many. */
    Words(int count) {
        chances = new double[count];
        double sum = 0;
        for (int word = 0; word < count; word++) {
            sum += 1.0 / (word + 1);
            chances[word] = sum;
        }
        for (int word = 0; word < count; word++) {
            chances[word] /= sum;
        }
    }

    /** The number of a word, from 0. */
    int draw(RandomGenerator random) {
        int place = Arrays.binarySearch(chances, random.nextDouble());
        return Math.min(place < 0 ? -place - 1 : place, chances.length - 1);
    }
}
